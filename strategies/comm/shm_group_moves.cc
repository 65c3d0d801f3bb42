// The collectives that only move bytes; see shm_group.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/shm_group.h"

namespace dtrain {
namespace {

// Of an all_to_all, about one other rank: the bytes that there are for it, and that are expected from it.
struct Row {
  std::uint64_t has, expects;
};

// An operation in place has its own part there already, or somewhere in its output: that part is moved before others
// come.
void move(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty() && to != from.data()) std::memmove(to, from.data(), from.size());
}

}  // namespace

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
    if (!outputs.empty()) move(outputs[static_cast<std::size_t>(rank_)] + done, {input + done, n});
    for (const int r : members()) {
      if (!outputs.empty() && r != rank_) move(outputs[static_cast<std::size_t>(r)] + done, {slot(r), n});
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

// As many steps as the largest part needs, in each of which a slot holds an equal share for every member. In the first
// one it begins with a table of how much its rank has for each and expects from each.
void ShmGroup::exchange(const Call& call, const std::vector<std::span<const std::byte>>& inputs,
                        const std::vector<std::span<std::byte>>& outputs) {
  const std::size_t table = members().size() * sizeof(Row), share = (slot_bytes_ - table) / members().size();
  std::size_t done = 0, largest = 0;
  do {
    const auto part = [&](auto whole) {
      const std::size_t at = std::min(done, whole.size());
      return whole.subspan(at, std::min(share, whole.size() - at));
    };
    const auto place = [&](int from, int to) { return slot(from) + table + seat(to) * share; };
    begin(call);
    for (const int r : members()) {
      const auto at = static_cast<std::size_t>(r);
      const Row row{inputs[at].size(), outputs[at].size()};
      if (done == 0) std::memcpy(slot(rank_) + seat(r) * sizeof row, &row, sizeof row);
      if (r != rank_) move(place(rank_, r), part(inputs[at]));
    }
    sync(call);
    compare(call);
    if (done == 0) largest = agree_on_parts(call);
    const auto own = static_cast<std::size_t>(rank_);
    move(part(outputs[own]).data(), part(inputs[own]));
    for (const int r : members()) {
      const std::span<std::byte> into = part(outputs[static_cast<std::size_t>(r)]);
      if (r != rank_) move(into.data(), {place(r, rank_), into.size()});
    }
    done += share;
  } while (done < largest);
}

// The bytes of the largest part that any rank has for another. All ranks see the same table, and judge it alike.
std::size_t ShmGroup::agree_on_parts(const Call& call) {
  const auto said = [this](int rank, int about) {
    Row row;
    std::memcpy(&row, slot(rank) + seat(about) * sizeof row, sizeof row);
    return row;
  };
  std::uint64_t largest = 0;
  for (const int from : members()) {
    for (const int to : members()) {
      const std::uint64_t has = said(from, to).has, expects = said(to, from).expects;
      if (has != expects)
        wait_.fail({FailureKind::mismatched, to}, call.name(),
                   fmt::format("rank {} has {} bytes for rank {}, which expects {}", from, has, to, expects));
      largest = std::max(largest, has);
    }
  }
  return static_cast<std::size_t>(largest);
}

}  // namespace dtrain
