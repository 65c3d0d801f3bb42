#include "rendezvous/rounds/round_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace dtrain {

namespace {

// Each message is described once, by the list of its fields; Writer and Reader both walk it.
template <class Io, class M>
void fields(Io& io, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, msg::Join>) {
    auto& n = m.node;
    io(n.job, n.agent_id, n.host, n.pid, n.role, n.topology, n.workers, n.wanted_rank, n.min_nodes, n.max_nodes,
       n.max_restarts, n.stop_ms, n.real_master, n.last.term, n.last.round, n.last.node_rank, n.last.nodes,
       n.last.restarts, n.last.host, n.times.join_ms, n.times.last_call_ms, n.times.pulse_ms, n.times.pulse_attempts,
       n.times.rejoin, n.attempt, n.address, n.port);
  } else if constexpr (std::is_same_v<T, msg::Failed>) {
    io(m.round, m.local_rank, m.what, m.exit_code, m.never_started, m.because_of, m.because);
  } else if constexpr (std::is_same_v<T, msg::Over>) {
    io(m.round, m.ok, m.left);
  } else if constexpr (std::is_same_v<T, msg::Leaving>) {
    io(m.signal, m.running);
  } else if constexpr (std::is_same_v<T, msg::Ping>) {
    io(m.sent, m.stamp, m.round);
  } else if constexpr (std::is_same_v<T, msg::Pong>) {
    io(m.sent, m.stamp, m.settled);
  } else if constexpr (std::is_same_v<T, msg::Seek>) {
    io(m.voter, m.last_term, m.last_round, m.promised, m.address, m.port);
  } else if constexpr (std::is_same_v<T, msg::Ballot>) {
    io(m.term, m.stamp, m.last_term, m.last_round);
  } else if constexpr (std::is_same_v<T, msg::Vote>) {
    io(m.term, m.stamp, m.granted, m.age, m.seen);
  } else if constexpr (std::is_same_v<T, msg::HostAt>) {
    io(m.term, m.addresses, m.port, m.settled);
  } else if constexpr (std::is_same_v<T, Candidate>) {
    io(m.voter, m.address, m.port);
  } else if constexpr (std::is_same_v<T, NodeFacts>) {
    io(m.host, m.agent, m.node_rank, m.base_rank, m.workers, m.state);
  } else if constexpr (std::is_same_v<T, Decision>) {
    io(m.age_ms, m.text);
  } else if constexpr (std::is_same_v<T, msg::Ask> || std::is_same_v<T, msg::Here>) {
    // no fields
  } else if constexpr (std::is_same_v<T, msg::Welcome>) {
    io(m.standing);
  } else if constexpr (std::is_same_v<T, msg::Facts>) {
    auto& j = m.job;
    io(j.phase, j.round, j.restarts, j.nodes, j.min_nodes, j.max_nodes, j.left_ms, j.phase_ms, j.missing, j.list,
       j.decisions);
  } else if constexpr (std::is_same_v<T, msg::Owned>) {
    io(m.question, m.yes);
  } else if constexpr (std::is_same_v<T, msg::Whose>) {
    io(m.question, m.ends.own, m.ends.own_port, m.ends.other, m.ends.other_port);
  } else if constexpr (std::is_same_v<T, msg::Refused>) {
    io(m.reason, m.try_again);
  } else if constexpr (std::is_same_v<T, msg::Waiting>) {
    io(m.nodes, m.min_nodes, m.max_nodes, m.left_ms, m.spare, m.reason, m.names);
  } else if constexpr (std::is_same_v<T, msg::Open>) {
    auto& p = m.place;
    io(p.round, p.restart_count, p.node_rank, p.nodes, p.base_rank, p.world_size, p.base_role_rank, p.role_world_size,
       p.master_addr, p.master_port, p.uniform, m.term, m.electorate.host, m.electorate.voters, m.electorate.earlier,
       m.electorate.candidates);
  } else if constexpr (std::is_same_v<T, msg::Stop>) {
    io(m.round, m.signal, m.reason, m.because_of, m.because);
  } else {
    static_assert(std::is_same_v<T, msg::End>);
    auto& v = m.verdict;
    io(v.how, v.exit_code, v.node_rank, v.reason);
  }
}

class Writer {
 public:
  template <class... F>
  void operator()(const F&... field) {
    (put(field), ...);
  }
  std::string bytes;

 private:
  void put(std::int64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }
  void put(int value) { put(value, 4); }
  void put(std::int64_t value) { put(value, 8); }
  void put(std::uint64_t value) { put(static_cast<std::int64_t>(value), 8); }
  void put(bool value) { put(value ? 1 : 0, 1); }
  void put(JobEnd value) { put(static_cast<int>(value), 1); }
  void put(const std::string& text) {
    const std::string_view shown = std::string_view(text).substr(0, kRoundTextBytes);
    put(static_cast<std::int64_t>(shown.size()), 4);
    bytes += shown;
  }
  void put_row(const std::string& text) { put(text); }
  void put_row(VoterId voter) { put(voter); }
  void put_row(const VoterSet& voters) { put(voters); }
  template <class Row>
  void put_row(const Row& row) {
    fields(*this, row);
  }
  template <class Row>
  void put(const std::vector<Row>& rows) {
    put(static_cast<std::int64_t>(rows.size()), 4);
    for (const Row& row : rows) put_row(row);
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <class... F>
  void operator()(F&... field) {
    (get(field), ...);
  }
  bool complete() const { return good_ && left_.empty(); }

 private:
  std::int64_t number(std::size_t size) {
    if (left_.size() < size) {
      good_ = false;
      left_ = {};
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<unsigned char>(left_[i])} << (8 * i);
    left_.remove_prefix(size);
    return static_cast<std::int64_t>(value);
  }
  void get(int& value) { value = static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))); }
  void get(std::int64_t& value) { value = number(8); }
  void get(std::uint64_t& value) { value = static_cast<std::uint64_t>(number(8)); }
  void get(bool& value) {
    const std::int64_t byte = number(1);
    good_ = good_ && byte <= 1;
    value = byte != 0;
  }
  void get(JobEnd& value) {
    const std::int64_t byte = number(1);
    good_ = good_ && byte < kJobEnds;
    if (good_) value = static_cast<JobEnd>(byte);
  }
  void get(std::string& text) {
    const auto size = static_cast<std::size_t>(number(4));
    if (size > kRoundTextBytes || size > left_.size()) {
      good_ = false;
      left_ = {};
      return;
    }
    text = left_.substr(0, size);
    left_.remove_prefix(size);
  }
  void get_row(std::string& text) { get(text); }
  void get_row(VoterId& voter) { get(voter); }
  void get_row(VoterSet& voters) { get(voters); }
  template <class Row>
  void get_row(Row& row) {
    fields(*this, row);
  }
  // No more rows than there are bytes, and none after what is no row.
  template <class Row>
  void get(std::vector<Row>& rows) {
    const auto count = static_cast<std::size_t>(number(4));
    good_ = good_ && count <= left_.size();
    for (std::size_t i = 0; good_ && i < count; ++i) get_row(rows.emplace_back());
  }

  std::string_view left_;
  bool good_ = true;
};

// The message of this type, read from `body`.
template <std::size_t I = 0>
bool read_message(std::size_t type, std::string_view body, RoundMessage& into) {
  if constexpr (I < std::variant_size_v<RoundMessage>) {
    if (type != I) return read_message<I + 1>(type, body, into);
    Reader reader(body);
    fields(reader, into.emplace<I>());
    return reader.complete();
  } else {
    return false;
  }
}

}  // namespace

std::string encode(const RoundMessage& message) {
  Writer body;
  std::visit([&](const auto& m) { fields(body, m); }, message);
  std::string frame;
  const std::size_t size = body.bytes.size() + 1;
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(size >> (8 * i) & 0xff);
  frame += static_cast<char>(message.index());
  return frame + body.bytes;
}

RoundDecoder::Status RoundDecoder::fail(std::string why) {
  error_ = std::move(why);
  held_.clear();
  used_ = 0;
  return Status::bad;
}

// Nothing: greeted, go on.
std::optional<RoundDecoder::Status> RoundDecoder::greeting() {
  if (greeted_) return std::nullopt;
  const std::size_t have = std::min(held_.size(), kRoundGreeting.size());
  const std::size_t name = std::min(have, kRoundGreeting.size() - 1);
  if (held_.compare(0, name, kRoundGreeting.substr(0, name)) != 0) return fail("this is not a dtrain agent");
  if (have < kRoundGreeting.size()) return Status::need_more;
  if (held_[have - 1] != kRoundGreeting.back())
    return fail(fmt::format("the agent there speaks version {} of the protocol, this one version {}",
                            static_cast<unsigned char>(held_[have - 1]), int{kRoundGreeting.back()}));
  used_ = have;
  greeted_ = true;
  return std::nullopt;
}

RoundDecoder::Status RoundDecoder::next() {
  if (!error_.empty()) return Status::bad;
  if (const auto status = greeting()) return *status;
  const std::string_view left = std::string_view(held_).substr(used_);
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4 && left.size() >= 4; ++i)
    size |= std::size_t{static_cast<unsigned char>(left[i])} << (8 * i);
  if (left.size() >= 4 && (size == 0 || size > kRoundFrameBytes)) return fail(fmt::format("a frame of {} bytes", size));
  if (left.size() < 4 || left.size() - 4 < size) {
    held_.erase(0, used_);
    used_ = 0;
    return Status::need_more;
  }
  const auto type = static_cast<unsigned char>(left[4]);
  if (!read_message(type, left.substr(5, size - 1), message_))
    return fail(fmt::format("a frame that is not a message (type {}, {} bytes)", type, size));
  used_ += 4 + size;
  return Status::message;
}

}  // namespace dtrain
