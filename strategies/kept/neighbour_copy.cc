#include "strategies/kept/neighbour_copy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <vector>

#include "strategies/checkpoint/pieces.h"

namespace dtrain::kept {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{16} << 20;

// What comes before the bytes of a state.
struct Announced {
  std::int64_t there = 0;  // 0: the rank could not keep this step
  std::int64_t round = 0, step = 0, extra_bytes = 0;
  std::int64_t rank = 0, world_size = 0, fingerprint = 0, value_bytes = 0, parts = 0;
};

template <class T>
Bytes bytes_of(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}
Bytes bytes_of(std::vector<Part>& parts) {
  return {reinterpret_cast<std::byte*>(parts.data()), parts.size() * sizeof(Part)};
}

at::Tensor message(Bytes bytes, std::size_t at) {
  const auto count = static_cast<std::int64_t>(std::min(kMessageBytes, bytes.count - at));
  if (bytes.data == nullptr) return at::empty({count}, at::kByte);
  return at::from_blob(bytes.data + at, {count}, at::TensorOptions(at::kByte));
}

}  // namespace

void exchange_bytes(const Group& group, int to, Bytes out, int from, Bytes in) {
  for (std::size_t at = 0; at < std::max(out.count, in.count); at += kMessageBytes) {
    c10::intrusive_ptr<c10d::Work> sending;
    if (at < out.count) {
      std::vector<at::Tensor> tensors{message(out, at)};
      sending = group.process_group()->send(tensors, to, kMessageTag);
    }
    if (at < in.count) group.recv(message(in, at), from, kMessageTag);
    if (sending) sending->wait();
  }
}

void exchange_copies(const Group& group, const Neighbours& neighbours, const KeptMemory& own,
                     std::optional<std::size_t> slot, KeptMemory& copy) {
  const auto signed_of = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  Announced mine, its;
  Identity identity;
  if (slot) {
    const Slot& what = *own.found().slots[*slot];
    identity = own.found().identity;
    mine = {1,
            what.stamp.round,
            what.stamp.step,
            signed_of(what.extra_bytes),
            identity.rank,
            identity.world_size,
            signed_of(identity.fingerprint),
            signed_of(identity.value_bytes),
            signed_of(identity.parts.size())};
  }
  exchange_bytes(group, neighbours.to, bytes_of(mine), neighbours.from, bytes_of(its));
  Identity coming{static_cast<std::uint32_t>(its.rank), static_cast<std::uint32_t>(its.world_size),
                  static_cast<std::uint64_t>(its.fingerprint), static_cast<std::uint64_t>(its.value_bytes)};
  coming.parts.resize(static_cast<std::size_t>(its.parts));
  exchange_bytes(group, neighbours.to, bytes_of(identity.parts), neighbours.from, bytes_of(coming.parts));

  std::optional<std::size_t> place;
  std::string failure;
  if (its.there != 0)
    failure = checkpoint::failure_of([&] {
      copy.make_room(coming);
      place = copy.begin();
    });
  // Whatever comes is taken, so that the rank that sends it can go on.
  const auto part = [](std::byte* data, std::int64_t count) { return Bytes{data, static_cast<std::size_t>(count)}; };
  exchange_bytes(group, neighbours.to, slot ? part(own.values(*slot), mine.value_bytes) : Bytes(), neighbours.from,
                 part(place ? copy.values(*place) : nullptr, its.value_bytes));
  exchange_bytes(group, neighbours.to, slot ? part(own.extra(*slot), mine.extra_bytes) : Bytes(), neighbours.from,
                 part(place ? copy.extra(*place) : nullptr, its.extra_bytes));
  if (!failure.empty()) throw checkpoint::Refused(failure);
  if (place)
    copy.commit(*place,
                {{static_cast<std::uint32_t>(its.round), its.step}, static_cast<std::uint64_t>(its.extra_bytes)});
}

}  // namespace dtrain::kept
