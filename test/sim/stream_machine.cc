#include "test/sim/stream_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace dtrain::sim {

StreamMachine::StreamMachine(std::uint64_t seed, int ranks) : random_(seed), hosts_(static_cast<std::size_t>(ranks)) {
  for (Host& host : hosts_) host.haste = 1 + static_cast<unsigned>(random_() % 8);
}

StreamMachine::Id StreamMachine::add_stream(int rank, const char* name) {
  streams_.push_back({rank, name, 1 + static_cast<unsigned>(random_() % 8)});
  return streams_.size() - 1;
}

StreamMachine::Id StreamMachine::add_meeting(std::vector<Id> streams) {
  meetings_.push_back(std::move(streams));
  return meetings_.size() - 1;
}

void StreamMachine::give(const Op& op) { hosts_[static_cast<std::size_t>(streams_[op.stream].rank)].ops.push_back(op); }

std::string StreamMachine::text(const Op& op) const {
  constexpr const char* kKinds[] = {"records", "waits", "writes", "reads", "meets", "drains"};
  const Stream& stream = streams_[op.stream];
  const bool accesses = op.kind == Kind::write || op.kind == Kind::read;
  return fmt::format("rank {}, stream {}: {} of group {} {}{}", stream.rank, stream.name, op.label.what, op.label.group,
                     kKinds[static_cast<std::size_t>(op.kind)],
                     accesses ? fmt::format(" memory {} ({})", op.what, memories_[op.what].name) : "");
}

std::string StreamMachine::trace() const {
  std::string all;
  for (const Op& op : done_) all += text(op) + "\n";
  return all;
}

bool StreamMachine::host_can(const Host& host) const {
  if (host.next == host.ops.size()) return false;
  const Op& op = host.ops[host.next];
  return op.kind != Kind::drain || streams_[op.stream].given.empty();
}

// As CUDA has it: a wait is for the place where the event was recorded last, as the host saw it.
void StreamMachine::host_goes_on(Host& host) {
  Op op = host.ops[host.next++];
  if (op.kind == Kind::drain) return;
  if (op.kind == Kind::record || op.kind == Kind::wait) {
    if (host.last.size() <= op.what) host.last.resize(op.what + 1);
    Id& last = host.last[op.what];
    if (op.kind == Kind::record) {
      last = records_.size();
      records_.emplace_back();
    } else if (last == 0) {
      throw std::runtime_error("a wait for an event that nobody records: " + text(op));
    }
    op.what = last;
  }
  streams_[op.stream].given.push_back(op);
}

bool StreamMachine::stream_can(const Stream& stream) const {
  if (stream.given.empty()) return false;
  const Op& op = stream.given.front();
  if (op.kind == Kind::wait) return records_[op.what].recorded;
  if (op.kind != Kind::meet) return true;
  const auto& all = meetings_[op.what];
  return std::all_of(all.begin(), all.end(), [&](Id each) {
    const auto& given = streams_[each].given;
    return !given.empty() && given.front().kind == Kind::meet && given.front().what == op.what;
  });
}

void StreamMachine::unordered(const Op& op, Id other, const Label& label) const {
  throw std::runtime_error(fmt::format("not ordered: {}, and {} of group {} on stream {}", text(op), label.what,
                                       label.group, streams_[other].name));
}

void StreamMachine::access(Id id, const Op& op) {
  Memory& memory = memories_[op.what];
  Stream& stream = streams_[id];
  const Clock& clock = stream.clock;
  memory.reads.resize(streams_.size());
  memory.read_labels.resize(streams_.size());
  if (memory.written && clock[memory.writer] < memory.write) unordered(op, memory.writer, memory.write_label);
  if (op.kind == Kind::read) {
    if (!memory.written || memory.value != op.value)
      throw std::runtime_error(fmt::format("{}: finds {} and not {}", text(op), memory.value, op.value));
    memory.reads[id] = clock[id];
    memory.read_labels[id] = op.label;
    return;
  }
  for (Id each = 0; each < streams_.size(); ++each)
    if (clock[each] < memory.reads[each]) unordered(op, each, memory.read_labels[each]);
  memory.written = true;
  memory.value = op.value;
  memory.writer = id;
  memory.write = clock[id];
  memory.write_label = op.label;
}

void StreamMachine::hold_meeting(Id meeting) {
  Clock all(streams_.size());
  const Label label = streams_[meetings_[meeting].front()].given.front().label;
  for (const Id each : meetings_[meeting]) {
    Stream& stream = streams_[each];
    const Op& op = stream.given.front();
    if (op.label != label) {
      throw std::runtime_error(fmt::format("ranks come to different collectives: {}, and {} of group {}", text(op),
                                           label.what, label.group));
    }
    for (Id i = 0; i < all.size(); ++i) all[i] = std::max(all[i], stream.clock[i]);
  }
  for (const Id each : meetings_[meeting]) {
    Stream& stream = streams_[each];
    stream.clock = all;
    done_.push_back(stream.given.front());
    stream.given.pop_front();
  }
  ++held_;
}

void StreamMachine::stream_goes_on(Id id) {
  Stream& stream = streams_[id];
  if (stream.given.front().kind == Kind::meet) return hold_meeting(stream.given.front().what);
  const Op op = stream.given.front();
  stream.given.pop_front();
  ++stream.clock[id];
  if (op.kind == Kind::record) records_[op.what] = {true, stream.clock};
  if (op.kind == Kind::wait) {
    const Clock& then = records_[op.what].clock;
    for (Id i = 0; i < then.size(); ++i) stream.clock[i] = std::max(stream.clock[i], then[i]);
  }
  done_.push_back(op);
  if (op.kind == Kind::write || op.kind == Kind::read) access(id, op);
}

// The first from some place on that can, and is not slow this time. False: none can.
bool StreamMachine::go_on() {
  const std::size_t hosts = hosts_.size(), all = hosts + streams_.size(), from = random_() % all;
  std::size_t able = all;
  for (std::size_t i = 0; i < all; ++i) {
    const std::size_t each = (from + i) % all;
    const bool is_host = each < hosts;
    if (is_host ? !host_can(hosts_[each]) : !stream_can(streams_[each - hosts])) continue;
    able = each;
    const unsigned haste = is_host ? hosts_[each].haste : streams_[each - hosts].haste;
    if (random_() % 8 < haste) break;
  }
  if (able == all) return false;
  if (able < hosts) {
    host_goes_on(hosts_[able]);
  } else {
    stream_goes_on(able - hosts);
  }
  return true;
}

void StreamMachine::stuck() const {
  std::string all = "deadlock:";
  for (const Stream& stream : streams_)
    if (!stream.given.empty()) all += "\n  " + text(stream.given.front());
  for (const Host& host : hosts_)
    if (host.next < host.ops.size()) all += "\n  the host, before " + text(host.ops[host.next]);
  throw std::runtime_error(all);
}

void StreamMachine::run() {
  for (Stream& stream : streams_) stream.clock.resize(streams_.size());
  while (go_on()) {
  }
  const bool hosts_done =
      std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.next == host.ops.size(); });
  const bool streams_done =
      std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.given.empty(); });
  if (!hosts_done || !streams_done) stuck();
}

}  // namespace dtrain::sim
