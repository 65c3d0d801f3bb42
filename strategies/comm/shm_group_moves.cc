// The collectives that only move bytes; see shm_group.h.
#include <algorithm>
#include <array>
#include <cstring>

#include "strategies/comm/shm_group_call.h"

namespace dtrain {

void ShmGroup::broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) {
  const Call call(*this, Op::broadcast, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("broadcast");
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(slot_bytes_, bytes - done);
    begin(call);
    if (rank_ == root && n > 0) std::memcpy(slot(rank_), data + done, n);
    sync(call);
    compare(call);
    if (rank_ != root && n > 0) std::memcpy(data + done, slot(root), n);
    done += n;
  } while (done < bytes);
}

void ShmGroup::all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                          Timeout timeout) {
  const Call call(*this, Op::all_gather, bytes, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("all_gather");
  gather_all(call, input, outputs, bytes);
}

void ShmGroup::gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
                      Timeout timeout) {
  const Call call(*this, Op::gather, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("gather");
  gather_all(call, input, outputs, bytes);
}

void ShmGroup::gather_all(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                          std::size_t bytes) {
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(slot_bytes_, bytes - done);
    begin(call);
    if (n > 0) std::memcpy(slot(rank_), input + done, n);
    sync(call);
    compare(call);
    for (std::size_t r = 0; r < outputs.size() && n > 0; ++r)
      std::memcpy(outputs[r] + done, slot(static_cast<int>(r)), n);
    done += n;
  } while (done < bytes);
}

void ShmGroup::scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                       Timeout timeout) {
  const Call call(*this, Op::scatter, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("scatter");
  // The root's slot holds the step's bytes for every rank, one part after another.
  const std::size_t step = std::max<std::size_t>(1, slot_bytes_ / static_cast<std::size_t>(ranks_));
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, bytes - done);
    begin(call);
    for (std::size_t r = 0; r < inputs.size() && n > 0; ++r) std::memcpy(slot(rank_) + r * n, inputs[r] + done, n);
    sync(call);
    compare(call);
    if (n > 0) std::memcpy(output + done, slot(root) + static_cast<std::size_t>(rank_) * n, n);
    done += n;
  } while (done < bytes);
}

// First a step in which every rank says how much it has for each and expects from each; then as many steps as the
// largest part needs, in each of which a slot holds an equal share for every rank.
void ShmGroup::all_to_all(const std::vector<std::span<const std::byte>>& inputs,
                          const std::vector<std::span<std::byte>>& outputs, Timeout timeout) {
  const Call call(*this, Op::all_to_all, 0, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("all_to_all");
  const std::size_t share = slot_bytes_ / static_cast<std::size_t>(ranks_);
  const std::size_t largest = agree_on_parts(call, inputs, outputs);
  for (std::size_t done = 0; done < largest; done += share) {
    const auto part = [&](std::size_t size) { return size > done ? std::min(share, size - done) : 0; };
    begin(call);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (const std::size_t n = part(inputs[r].size()); n > 0)
        std::memcpy(slot(rank_) + r * share, inputs[r].data() + done, n);
    }
    sync(call);
    compare(call);
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      if (const std::size_t n = part(outputs[r].size()); n > 0)
        std::memcpy(outputs[r].data() + done, slot(static_cast<int>(r)) + static_cast<std::size_t>(rank_) * share, n);
    }
  }
}

// The bytes of the largest part that any rank has for another. All ranks see the same table, and judge it alike.
std::size_t ShmGroup::agree_on_parts(const Call& call, const std::vector<std::span<const std::byte>>& inputs,
                                     const std::vector<std::span<std::byte>>& outputs) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto said = [this](std::size_t rank, std::size_t at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, slot(static_cast<int>(rank)) + at * sizeof bytes, sizeof bytes);
    return bytes;
  };
  begin(call);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::array<std::uint64_t, 2> row = {inputs[r].size(), outputs[r].size()};
    std::memcpy(slot(rank_) + r * sizeof row, row.data(), sizeof row);
  }
  sync(call);
  compare(call);
  std::uint64_t largest = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      const std::uint64_t has = said(from, 2 * to), expects = said(to, 2 * from + 1);
      if (has != expects)
        wait_.fail({FailureKind::mismatched, static_cast<int>(to)}, call.name(),
                   fmt::format("rank {} has {} bytes for rank {}, which expects {}", from, has, to, expects));
      largest = std::max(largest, has);
    }
  }
  return static_cast<std::size_t>(largest);
}

}  // namespace dtrain
