// Reductions through slots; see reduce.h.
#include "strategies/comm/local/reduce.h"

#include <algorithm>
#include <cstring>

#include "strategies/comm/kernels/reduce.h"
#include "strategies/comm/memory/cache_line.h"

namespace dtrain {

void LocalReductions::all_reduce(const CollectiveCall& call, std::byte* data, std::size_t count) {
  if (first_step(call, data, count, place_in_arena(data, count * size_of(call.type()))))
    return reduce_in_arenas(call, data, count);
  reduce_from_slots(call, data, count, true);
}

void LocalReductions::reduce(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives) {
  first_step(call, data, count, 0);
  reduce_from_slots(call, data, count, receives);
}

bool LocalReductions::first_step(const CollectiveCall& call, std::byte* data, std::size_t count, std::uint64_t place) {
  Arena::drop_copy();
  const std::size_t width = size_of(call.type());
  const bool small = is_small(count * width);
  const auto put = [&] { copy_in(data, small ? count : std::min(step_of(width), count), width, small); };
  steps_.begin(call, place);
  if (place == 0) put();
  try {
    steps_.sync(call);
  } catch (...) {
    // A rank that is late may yet find all tensors in arenas, and write into this one.
    if (place != 0) Arena::known()->keep(data);
    throw;
  }
  steps_.compare(call);
  const auto& members = steps_.members();
  const auto sharing = std::count_if(members.begin(), members.end(), [&](int r) { return steps_.place(r) != 0; });
  if (sharing == 0 || sharing == std::ssize(members)) return sharing > 0;
  // Some tensors are in arenas, and some in slots: now those of the arenas go into slots too.
  if (place != 0) put();
  steps_.sync(call);
  return false;
}

void LocalReductions::copy_in(const std::byte* data, std::size_t count, std::size_t width, bool whole) {
  if (count == 0) return;
  std::byte* const slot = steps_.own_slot();
  if (whole) {
    std::memcpy(slot, data, count * width);
    return;
  }
  for (const int r : steps_.members()) {
    const Slice s = slice(r, count, width);
    if (r != steps_.rank) std::memcpy(slot + s.at, data + s.at, s.bytes);
  }
}

void LocalReductions::reduce_from_slots(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives) {
  if (!is_small(count * size_of(call.type()))) return reduce_parts(call, data, count, receives);
  if (receives) reduce_small(call, data, count);
}

void LocalReductions::reduce_small(const CollectiveCall& call, std::byte* data, std::size_t count) {
  if (count == 0) return;
  sources_.clear();
  for (const int r : steps_.members()) sources_.push_back(steps_.slot(r));
  reduce_sources(call, data, count);
}

// One synchronisation a part: after it all ranks have reduced this part, and have the next one in their slots.
void LocalReductions::reduce_parts(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives) {
  const std::size_t width = size_of(call.type()), step = step_of(width);
  for (std::size_t done = 0, next = 0; done < count; done = next) {
    const std::size_t n = std::min(step, count - done);
    next = done + n;
    reduce_slice(call, data + done * width, n, receives);
    const std::uint32_t parity = steps_.parity();
    if (next < count) {
      steps_.begin(call);
      copy_in(data + next * width, std::min(step, count - next), width, false);
    }
    steps_.sync(call);
    if (next < count) steps_.compare(call);
    for (const int r : steps_.members()) {
      const Slice s = slice(r, n, width);
      if (receives && r != steps_.rank) std::memcpy(data + done * width + s.at, steps_.results(r, parity), s.bytes);
    }
  }
}

// This rank's slice of a part, for all ranks. It is reduced by blocks: a block is still in the nearest cache when it is
// copied into this rank's data.
void LocalReductions::reduce_slice(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives) {
  const std::size_t width = size_of(call.type());
  const Slice own = slice(steps_.rank, count, width);
  for (std::size_t done = 0; done < own.bytes; done += kBlockBytes) {
    const std::size_t at = own.at + done, bytes = std::min(kBlockBytes, own.bytes - done);
    sources_.clear();
    for (const int r : steps_.members()) sources_.push_back((r == steps_.rank ? data : steps_.slot(r)) + at);
    std::byte* const result = steps_.results(steps_.rank, steps_.parity()) + done;
    reduce_sources(call, result, bytes / width);
    if (receives) std::memcpy(data + at, result, bytes);
  }
}

void LocalReductions::reduce_sources(const CollectiveCall& call, std::byte* out, std::size_t count) {
  reduce_in_order(call.type(), call.reduction(), sources_, out, count, static_cast<std::size_t>(steps_.ranks));
}

LocalReductions::Slice LocalReductions::slice(int member, std::size_t count, std::size_t width) const {
  const std::size_t members = steps_.members().size(), seat = steps_.seat(member);
  const std::size_t from = count * seat / members;
  return {from * width, (count * (seat + 1) / members - from) * width};
}

void LocalReductions::reduce_scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs,
                                     std::byte* output, std::size_t count) {
  const std::size_t width = size_of(call.type());
  // A slot holds the step's elements for every rank, one part after another.
  const std::size_t share = lines_in(steps_.slot_bytes / static_cast<std::size_t>(steps_.ranks));
  const std::size_t step = std::max<std::size_t>(1, share / width);
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, count - done);
    steps_.begin(call);
    const std::size_t stride = lines_for(n * width);
    const auto in_slot = [&](int from, int to) { return steps_.slot(from) + static_cast<std::size_t>(to) * stride; };
    const auto own = [&](int to) { return inputs[static_cast<std::size_t>(to)] + done * width; };
    for (const int r : steps_.members()) {
      if (r != steps_.rank && n > 0) std::memcpy(in_slot(steps_.rank, r), own(r), n * width);
    }
    steps_.sync_and_compare(call);
    sources_.clear();
    for (const int r : steps_.members()) sources_.push_back(r == steps_.rank ? own(r) : in_slot(r, steps_.rank));
    reduce_sources(call, output + done * width, n);
    done += n;
  } while (done < count);
}

}  // namespace dtrain
