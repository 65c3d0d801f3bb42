// The collectives that only move bytes; see shm_group.h.
#include <algorithm>
#include <array>
#include <cstring>

#include "strategies/comm/shm_group.h"

namespace dtrain {

void ShmGroup::broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::broadcast, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("broadcast");
  spread(call, data, bytes, root);
}

void ShmGroup::spread(const Call& call, std::byte* data, std::size_t bytes, int root) {
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
  const Call call(++operations_, CollectiveOp::all_gather, bytes, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("all_gather");
  collect(call, input, outputs, bytes);
}

void ShmGroup::gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
                      Timeout timeout) {
  const Call call(++operations_, CollectiveOp::gather, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("gather");
  collect(call, input, outputs, bytes);
}

void ShmGroup::collect(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                       std::size_t bytes) {
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(slot_bytes_, bytes - done);
    begin(call);
    if (n > 0) std::memcpy(slot(rank_), input + done, n);
    sync(call);
    compare(call);
    for (const int r : members()) {
      if (n > 0 && !outputs.empty()) std::memcpy(outputs[static_cast<std::size_t>(r)] + done, slot(r), n);
    }
    done += n;
  } while (done < bytes);
}

void ShmGroup::scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                       Timeout timeout) {
  const Call call(++operations_, CollectiveOp::scatter, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("scatter");
  deal(call, inputs, output, bytes, root);
}

void ShmGroup::deal(const Call& call, const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes,
                    int root) {
  // The root's slot holds the step's bytes for every member, one part after another.
  const std::size_t step = std::max<std::size_t>(1, slot_bytes_ / members().size());
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, bytes - done);
    begin(call);
    for (const int r : members()) {
      if (n > 0 && rank_ == root) std::memcpy(slot(rank_) + seat(r) * n, inputs[static_cast<std::size_t>(r)] + done, n);
    }
    sync(call);
    compare(call);
    if (n > 0) std::memcpy(output + done, slot(root) + seat(rank_) * n, n);
    done += n;
  } while (done < bytes);
}

void ShmGroup::all_to_all(const std::vector<std::span<const std::byte>>& inputs,
                          const std::vector<std::span<std::byte>>& outputs, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_to_all, 0, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("all_to_all");
  exchange(call, inputs, outputs);
}

// First a step in which every rank says how much it has for each and expects from each; then as many steps as the
// largest part needs, in each of which a slot holds an equal share for every member.
void ShmGroup::exchange(const Call& call, const std::vector<std::span<const std::byte>>& inputs,
                        const std::vector<std::span<std::byte>>& outputs) {
  const std::size_t share = slot_bytes_ / members().size();
  const std::size_t largest = agree_on_parts(call, inputs, outputs);
  for (std::size_t done = 0; done < largest; done += share) {
    const auto part = [&](std::size_t size) { return size > done ? std::min(share, size - done) : 0; };
    begin(call);
    for (const int r : members()) {
      const auto& input = inputs[static_cast<std::size_t>(r)];
      if (const std::size_t n = part(input.size()); n > 0)
        std::memcpy(slot(rank_) + seat(r) * share, input.data() + done, n);
    }
    sync(call);
    compare(call);
    for (const int r : members()) {
      const auto& output = outputs[static_cast<std::size_t>(r)];
      if (const std::size_t n = part(output.size()); n > 0)
        std::memcpy(output.data() + done, slot(r) + seat(rank_) * share, n);
    }
  }
}

// The bytes of the largest part that any rank has for another. All ranks see the same table, and judge it alike.
std::size_t ShmGroup::agree_on_parts(const Call& call, const std::vector<std::span<const std::byte>>& inputs,
                                     const std::vector<std::span<std::byte>>& outputs) {
  const auto said = [this](int rank, std::size_t at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, slot(rank) + at * sizeof bytes, sizeof bytes);
    return bytes;
  };
  begin(call);
  for (const int r : members()) {
    const auto at = static_cast<std::size_t>(r);
    const std::array<std::uint64_t, 2> row = {inputs[at].size(), outputs[at].size()};
    std::memcpy(slot(rank_) + seat(r) * sizeof row, row.data(), sizeof row);
  }
  sync(call);
  compare(call);
  std::uint64_t largest = 0;
  for (const int from : members()) {
    for (const int to : members()) {
      const std::uint64_t has = said(from, 2 * seat(to)), expects = said(to, 2 * seat(from) + 1);
      if (has != expects)
        wait_.fail({FailureKind::mismatched, to}, call.name(),
                   fmt::format("rank {} has {} bytes for rank {}, which expects {}", from, has, to, expects));
      largest = std::max(largest, has);
    }
  }
  return static_cast<std::size_t>(largest);
}

}  // namespace dtrain
