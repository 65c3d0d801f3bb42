#include "strategies/kept/refill.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "strategies/checkpoint/pieces.h"
#include "strategies/kept/neighbour_copy.h"

namespace dtrain::kept {
namespace {

constexpr std::uint64_t kBufferBytes = std::uint64_t{16} << 20;  // of what ranks send each other at a time

// Elements that lie side by side at `from` go to their place.
void fill(const StatePiece& wanted, const Transfer& transfer, const std::byte* from) {
  const auto first = static_cast<std::int64_t>(transfer.begin) - wanted.begin;
  wanted.values.narrow(0, first, static_cast<std::int64_t>(transfer.count))
      .copy_(at::from_blob(const_cast<std::byte*>(from), {static_cast<std::int64_t>(transfer.count)},
                           at::TensorOptions(wanted.dtype)));
}

using Transfers = std::vector<Transfer>;

Transfers from_rank(const Transfers& all, int rank) {
  Transfers some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const Transfer& t) { return t.from.rank == rank; });
  return some;
}

// The next ones, as many as fit into a buffer; of one that does not fit, a part.
Transfers take_some(Transfers& all, std::size_t& done, const std::vector<std::uint64_t>& sizes) {
  Transfers some;
  for (std::uint64_t room = kBufferBytes; done < all.size();) {
    Transfer& next = all[done];
    const std::uint64_t size = sizes[next.index], count = std::min(next.count, room / size);
    if (count == 0) break;
    some.push_back(next);
    some.back().count = count;
    room -= count * size;
    next.begin += count;
    next.at += count * size;
    next.count -= count;
    if (next.count == 0) ++done;
  }
  return some;
}

std::size_t size_in_bytes(const Transfers& some, const std::vector<std::uint64_t>& sizes) {
  std::size_t bytes = 0;
  for (const Transfer& each : some) bytes += each.count * sizes[each.index];
  return bytes;
}

}  // namespace

void refill(const Group& world, const std::string& what, const std::vector<Told>& of_ranks, const Stamp& stamp,
            const std::vector<StatePiece*>& wanted, const ValuesAt& values_at) {
  const at::NoGradGuard no_grad;
  const int ranks = world.size(), self = world.rank();
  std::vector<std::uint64_t> sizes;
  for (const StatePiece* piece : wanted) sizes.push_back(c10::elementSize(piece->dtype));
  std::vector<Transfers> of_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    Needed needed = needed_by(of_ranks, stamp, rank, sizes);
    if (needed.missing)
      throw CheckpointError(fmt::format("dtrain: {}: no rank keeps element {} of {}", what, needed.missing->second,
                                        checkpoint::shown(wanted[needed.missing->first]->name)));
    of_rank.push_back(std::move(needed.transfers));
  }
  const Transfers& own = of_rank[static_cast<std::size_t>(self)];
  for (const Transfer& each : from_rank(own, self)) fill(*wanted[each.index], each, values_at(each.from, each.at));
  std::vector<std::byte> out, in;
  for (int turn = 1; turn < ranks; ++turn) {
    const int to = (self + turn) % ranks, from = (self + ranks - turn) % ranks;
    Transfers sending = from_rank(of_rank[static_cast<std::size_t>(to)], self), coming = from_rank(own, from);
    for (std::size_t sent = 0, came = 0; sent < sending.size() || came < coming.size();) {
      const Transfers some_out = take_some(sending, sent, sizes), some_in = take_some(coming, came, sizes);
      out.resize(size_in_bytes(some_out, sizes));
      in.resize(size_in_bytes(some_in, sizes));
      std::byte* at = out.data();
      for (const Transfer& each : some_out)
        at = std::copy_n(values_at(each.from, each.at), each.count * sizes[each.index], at);
      exchange_bytes(world, to, {out.data(), out.size()}, from, {in.data(), in.size()});
      const std::byte* next = in.data();
      for (const Transfer& each : some_in) {
        fill(*wanted[each.index], each, next);
        next += each.count * sizes[each.index];
      }
    }
  }
}

}  // namespace dtrain::kept
