#pragma once
// A job whose nodes choose their host: SuccessionCore, RoundCore, LinkPulse and LinkSilence as they are, in a world of
// lost, late, repeated and reordered messages, partitions of one and both directions, stalls, crashes and new agents;
// each machine has a clock of its own.
// After each event: one host for each term, workers of one round only, rounds that increase; and in the end, if a
// majority is there, a round.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/election/succession_core.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_core.h"
#include "test/sim/node_clock.h"

namespace dtrain::sim {

class SuccessionWorld {
 public:
  explicit SuccessionWorld(std::uint64_t seed);
  // Throws std::runtime_error when something must not be.
  void run();
  const std::string& trace() const { return trace_; }
  int followed() const { return followed_; }  // hosts that were chosen
  int opened() const { return int(rounds_.size()); }
  bool survived() const { return survived_; }  // there was a majority in the end

 private:
  using Id = int;
  // A connection: [0] is the end of who made it.
  struct Conn {
    Id id = 0;
    int node[2] = {0, 0};
    std::uint64_t life[2] = {0, 0};  // of which agent
    bool open[2] = {true, true};
    bool seek = false;
    MonoTime last[2]{};  // when the last message in this direction comes
    // Under way; those that come in order, by their number.
    std::map<int, RoundMessage> ordered[2];
    int sent = 0;
  };
  struct Peer {  // of a host
    std::string agent;
    std::optional<LinkSilence> silence;
    std::optional<msg::Join> join;  // until it says Here
    bool joined = false;
  };
  struct Host {
    std::unique_ptr<RoundCore> core;
    std::map<MemberId, Peer> peers;  // by connection; own: 0
    std::vector<RoundAction> held;
    bool holds = false;
  };
  struct Workers {
    std::uint64_t term = 0;
    int round = 0;
    MonoTime killed_at = MonoTime::max();
    MonoTime over_at = MonoTime::max();  // stopped, and will say so
  };
  // Its times are on its own clock.
  struct Node {
    bool alive = true;
    std::optional<MonoTime> leaves_at;  // its user has stopped it; when its agent ends
    std::uint64_t life = 0;
    MonoTime frozen_until{};  // on the world's
    std::string agent;
    std::unique_ptr<SuccessionCore> core;
    std::unique_ptr<Host> host;
    // The link to its host; own: to itself.
    Id link = 0;           // 0: none; -1: own
    bool joined = false;   // the host has answered
    bool follows = false;  // ... and has not refused it
    std::optional<LinkPulse> pulse;
    MonoTime stamped{};
    std::int64_t echo = 0;
    int attempts = 0;
    Duration stalled{};  // until it goes on
    HostPlace to;
    LastPlace last;
    std::optional<Workers> workers;
    std::optional<MonoTime> look_at;
    std::optional<MonoTime> hello_until;
    // Seeking.
    bool seeks = false;
    std::map<int, Id> sought;  // candidates' nodes, and the connections to them
    std::map<int, MonoTime> seek_at;
    std::map<int, VoterId> seek_id;
    std::map<Id, msg::Seek> seekers;
  };

  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool chance(int in) { return draw(0, in - 1) == 0; }
  void note(int node, const std::string& text);
  [[noreturn]] void fail(const std::string& why) const;

  void start(int node);
  void crash(int node, bool silently);
  void stop(int node);
  void fault();
  void heal();
  void step(int node);
  void check();
  MonoTime clock(int node) const { return clocks_[std::size_t(node)].at(now_); }
  MonoTime due(int node) const;
  void advance(MonoTime latest);
  void step_those_due();
  void later(int node, MonoTime at, std::function<void()> what);

  Id connect(int from, int to, bool seek, const std::function<void(bool)>& done);
  void send(Id conn, int end, const RoundMessage& message);
  void transmit(Id conn, int end, MonoTime at, int number, std::optional<RoundMessage> loose);
  void close(Id conn, int end);
  void tell_closed(Id conn, int end, MonoTime at);
  void closed(int node, Id conn, int end, bool fin);
  void received(int node, Id conn, int end, const RoundMessage& message);

  void feed(int node, const SuccessionEvent& event);
  void perform(int node, const SuccessionAction& action);
  void carry_out(int node, const succession_action::There& there);
  void carry_out(int node, const succession_action::Here& here);
  void carry_out(int node, const succession_action::Nobody&);
  void carry_out(int node, const succession_action::Withdraw&);
  void carry_out(int node, const succession_action::Seek& seek);
  void carry_out(int node, const succession_action::StopSeeking&);
  void carry_out(int node, const succession_action::Propose& propose);
  void carry_out(int node, const succession_action::Answer& answer);
  void carry_out(int node, const succession_action::Open&);
  void carry_out(int, const succession_action::Doubt&) {}
  void carry_out(int, const succession_action::Sure&) {}
  void carry_out(int node, const succession_action::Deposed&);
  void look(int node);
  void join(int node, const HostPlace& host);
  void leave(int node);
  NodeInfo info(int node) const;
  void from_host(int node, const RoundMessage& message);
  void link_lost(int node);
  void beat(int node);
  void seek(int node, int candidate);
  void begin_hosting(int node, std::uint64_t term, MonoTime not_before);
  void host_event(int node, const RoundEvent& event);
  void host_perform(int node, const RoundAction& action);
  void to_host(int node, MemberId member, const RoundMessage& message);
  void host_tick(int node);
  void end_hosting(int node);
  bool expected() const;

  std::mt19937_64 random_;
  MonoTime now_{std::chrono::hours(1)};
  int nodes_ = 3;
  std::vector<Node> all_;
  std::vector<NodeClock> clocks_;
  std::vector<MonoTime> wake_;          // when each has something to do
  std::vector<std::vector<bool>> cut_;  // [from][to]
  std::map<Id, Conn> conns_;
  std::multimap<MonoTime, std::pair<int, std::function<void()>>> queue_;
  std::map<std::uint64_t, std::string> leaders_;
  std::map<std::pair<std::uint64_t, int>, std::string> rounds_;  // (term, round) -> agent of the host
  Id last_conn_ = 0;
  std::uint64_t lives_ = 0;
  int crashes_left_ = 0, followed_ = 0, loss_ = 0, slowest_ms_ = 5;
  bool faulty_ = true, survived_ = false, job_over_ = false;
  std::string trace_;
};

}  // namespace dtrain::sim
