// The collectives that only move bytes; see shm_group.h.
#include <algorithm>
#include <cstring>
#include <functional>

#include "strategies/comm/cache_line.h"
#include "strategies/comm/shm_group.h"

namespace dtrain {
namespace {

// A larger broadcast goes through slots: of each step the root copies the next part while the others copy this one, and
// where they only read, it has nothing to do.
constexpr std::size_t kMostDirectBroadcast = 512 * 1024;

// Of an all_to_all, about one other rank: the bytes that there are for it, and that are expected from it. And where the
// first lie in the rank's own memory; 0: in its slot.
struct Row {
  std::uint64_t has, expects, place;
};

// An operation in place has its own part there already, or somewhere in its output: that part is moved before others
// come.
void move(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty() && to != from.data()) std::memmove(to, from.data(), from.size());
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

bool any_overlap(Inputs inputs, Outputs outputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](auto& in) {
    return std::any_of(outputs.begin(), outputs.end(), [&](auto& out) { return overlap(in, out); });
  });
}

}  // namespace

void ShmGroup::broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::broadcast, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("broadcast");
  spread(call, data, bytes, root);
}

void ShmGroup::spread(const Call& call, std::byte* data, std::size_t bytes, int root) {
  if (is_direct(bytes) && bytes <= kMostDirectBroadcast && spread_direct(call, data, bytes, root)) return;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(slot_bytes_, bytes - done);
    begin(call);
    if (rank_ == root) {
      if (n > 0) std::memcpy(slot(rank_), data + done, n);
      go_ahead_or_meet(call, bytes);
    } else {
      sync(call);
      compare(call);
      if (n > 0) std::memcpy(data + done, slot(root), n);
    }
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

bool ShmGroup::spread_direct(const Call& call, std::byte* data, std::size_t bytes, int root) {
  begin(call, rank_ == root ? place(data) : 0);
  sync(call);
  compare(call);
  return all_have_read(call, rank_ == root || read(call, root, place_at(root), {data, bytes}));
}

// An input that lies where a part of the output comes is moved to its own place first. Where it lies then.
const std::byte* ShmGroup::out_of_the_way(const std::byte* input, const std::vector<std::byte*>& outputs,
                                          std::size_t bytes) const {
  std::byte* const own = outputs.empty() ? nullptr : outputs[static_cast<std::size_t>(rank_)];
  const auto is_in_way = [&](int r) { return overlap({input, bytes}, {outputs[static_cast<std::size_t>(r)], bytes}); };
  if (outputs.empty() || input == own || std::none_of(members().begin(), members().end(), is_in_way)) return input;
  move(own, {input, bytes});
  return own;
}

void ShmGroup::collect(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                       std::size_t bytes) {
  input = out_of_the_way(input, outputs, bytes);
  if (is_direct(bytes) && collect_direct(call, input, outputs, bytes)) return;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(slot_bytes_, bytes - done);
    begin(call);
    if (n > 0) std::memcpy(slot(rank_), input + done, n);
    if (outputs.empty()) {
      go_ahead_or_meet(call, bytes);
    } else {
      sync(call);
      compare(call);
      move(outputs[static_cast<std::size_t>(rank_)] + done, {input + done, n});
      for (const int r : members())
        if (r != rank_) move(outputs[static_cast<std::size_t>(r)] + done, {slot(r), n});
    }
    done += n;
  } while (done < bytes);
}

bool ShmGroup::collect_direct(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                              std::size_t bytes) {
  const auto output = [&](int r) { return std::span(outputs[static_cast<std::size_t>(r)], bytes); };
  begin(call, place(input));
  sync(call);
  compare(call);
  if (!outputs.empty()) move(output(rank_).data(), {input, bytes});
  bool well = true;
  for (const int r : members())
    if (!outputs.empty() && r != rank_) well = well && read(call, r, place_at(r), output(r));
  return all_have_read(call, well);
}

void ShmGroup::scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                       Timeout timeout) {
  const Call call(++operations_, CollectiveOp::scatter, bytes, ElementType::u8, Reduction::sum, root, timeout);
  wait_.check("scatter");
  deal(call, inputs, output, bytes, root);
}

void ShmGroup::deal(const Call& call, const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes,
                    int root) {
  if (is_direct(bytes) && deal_direct(call, inputs, output, bytes, root)) return;
  // The root's slot holds the step's bytes for every member, one part after another.
  const std::size_t step = std::max<std::size_t>(1, lines_in(slot_bytes_ / members().size()));
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, bytes - done);
    begin(call);
    for (const int r : members()) {
      const std::byte* const from = rank_ == root ? inputs[static_cast<std::size_t>(r)] + done : nullptr;
      if (n > 0 && rank_ == root) std::memcpy(slot(rank_) + seat(r) * lines_for(n), from, n);
    }
    if (rank_ == root) {
      go_ahead_or_meet(call, bytes);
    } else {
      sync(call);
      compare(call);
    }
    if (n > 0) std::memcpy(output + done, slot(root) + seat(rank_) * lines_for(n), n);
    done += n;
  } while (done < bytes);
}

// The root's slot holds where each member's part lies.
bool ShmGroup::deal_direct(const Call& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                           std::size_t bytes, int root) {
  const auto entry = [&](int r) { return slot(root) + seat(r) * sizeof(std::uint64_t); };
  begin(call);
  for (const int r : members()) {
    const std::uint64_t at = rank_ == root ? place(inputs[static_cast<std::size_t>(r)]) : 0;
    if (rank_ == root) std::memcpy(entry(r), &at, sizeof at);
  }
  sync(call);
  compare(call);
  std::uint64_t at = 0;
  std::memcpy(&at, entry(rank_), sizeof at);
  const bool all = all_have_read(call, rank_ == root || read(call, root, at, {output, bytes}));
  if (all && rank_ == root) move(output, {inputs[static_cast<std::size_t>(rank_)], bytes});
  return all;
}

void ShmGroup::all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_to_all, 0, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("all_to_all");
  exchange(call, inputs, outputs);
}

// As many steps as the largest part needs, in each of which a slot holds an equal share for every member. In the first
// one it begins with a table of how much its rank has for each and expects from each; where that is the same for all,
// the rank says that beside what it calls instead. What lies apart from where others' parts come may be read where it
// is, at the end.
void ShmGroup::exchange(const Call& call, Inputs inputs, Outputs outputs) {
  const std::size_t table = lines_for(members().size() * sizeof(Row));
  const std::size_t share = lines_in((slot_bytes_ - table) / members().size());
  const auto own = static_cast<std::size_t>(rank_);
  const auto most =
      std::max_element(inputs.begin(), inputs.end(), [](auto& a, auto& b) { return a.size() < b.size(); });
  const bool direct = is_direct(most->size()) && !any_overlap(inputs, outputs);
  const bool equal = !direct && std::all_of(members().begin(), members().end(), [&](int r) {
    const auto at = static_cast<std::size_t>(r);
    return inputs[at].size() == most->size() && outputs[at].size() == most->size();
  });
  std::size_t done = 0;
  const auto part = [&](auto whole) {
    const std::size_t at = std::min(done, whole.size());
    return whole.subspan(at, std::min(share, whole.size() - at));
  };
  const auto place_in_slot = [&](int from, int to) { return slot(from) + table + seat(to) * share; };
  const auto put = [&] {
    for (const int r : members())
      if (r != rank_) move(place_in_slot(rank_, r), part(inputs[static_cast<std::size_t>(r)]));
  };
  const auto take_of = [&](const auto& these) {
    for (const int r : members()) {
      const std::span<std::byte> into = part(outputs[static_cast<std::size_t>(r)]);
      if (r != rank_ && these(r)) move(into.data(), {place_in_slot(r, rank_), into.size()});
    }
  };
  Parts parts;
  const auto is_read = [&](int r) { return parts.any_direct && parts.places[static_cast<std::size_t>(r)] != 0; };
  do {
    begin(call, equal ? most->size() + 1 : 0);
    for (const int r : members()) {
      const auto at = static_cast<std::size_t>(r);
      const Row row{inputs[at].size(), outputs[at].size(), direct ? place(inputs[at].data()) : 0};
      if (done == 0 && !equal) std::memcpy(slot(rank_) + seat(r) * sizeof row, &row, sizeof row);
    }
    if (!direct) put();
    sync(call);
    compare(call);
    if (done == 0) parts = agree_on_parts(call);
    if (!direct) move(part(outputs[own]).data(), part(inputs[own]));
    take_of([&](int r) { return !is_read(r); });
    done += share;
  } while (done < parts.largest);
  if (!parts.any_direct) return;
  bool well = true;
  for (const int r : members()) {
    const auto at = static_cast<std::size_t>(r);
    if (r != rank_ && is_read(r)) well = well && read(call, r, parts.places[at], outputs[at]);
  }
  const bool all = all_have_read(call, well);
  if (direct) move(outputs[own].data(), inputs[own]);
  for (done = 0; !all && done < parts.largest_direct; done += share) {
    begin(call);
    if (direct) put();
    sync(call);
    compare(call);
    take_of(is_read);
  }
}

// All ranks see the same table, and judge it alike.
ShmGroup::Parts ShmGroup::agree_on_parts(const Call& call) {
  const auto said = [this](int rank, int about) {
    Row row{place_at(rank) - 1, place_at(rank) - 1, 0};
    if (place_at(rank) == 0) std::memcpy(&row, slot(rank) + seat(about) * sizeof row, sizeof row);
    return row;
  };
  Parts parts;
  for (const int from : members()) {
    for (const int to : members()) {
      const Row row = said(from, to);
      const std::uint64_t expects = said(to, from).expects;
      if (row.has != expects)
        wait_.fail({FailureKind::mismatched, to}, call.name(),
                   fmt::format("rank {} has {} bytes for rank {}, which expects {}", from, row.has, to, expects));
      std::size_t& largest = row.place == 0 ? parts.largest : parts.largest_direct;
      largest = std::max(largest, static_cast<std::size_t>(row.has));
      parts.any_direct = parts.any_direct || row.place != 0;
    }
  }
  if (!parts.any_direct) return parts;
  parts.places.resize(static_cast<std::size_t>(ranks_));
  for (const int from : members()) parts.places[static_cast<std::size_t>(from)] = said(from, rank_).place;
  return parts;
}

}  // namespace dtrain
