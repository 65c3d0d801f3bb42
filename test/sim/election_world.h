#pragma once
// Agents that find their job's host by a key in etcd: ElectionCore as it is, with an etcd whose answers are late, lost
// or of a call that was carried out twice; agents that are cut off, stall, die and start anew, each with a clock of its
// own, as etcd has one. At every step one host is sure of itself, terms grow, and whoever follows opens no round while
// a node of the one before can have workers; when all is well again there is a host.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/election/etcd_election_core.h"
#include "test/sim/node_clock.h"

namespace dtrain::sim {

class ElectionWorld {
 public:
  explicit ElectionWorld(std::uint64_t seed);
  // Throws std::runtime_error when something must not be.
  void run();
  const std::string& trace() const { return trace_; }
  int followed() const { return followed_; }

 private:
  // etcd itself is right. Its times are on its own clock.
  struct ModelEtcd {
    struct Lease {
      MonoTime ends;
      Duration ttl;
    };
    std::int64_t revision = 1, leases_made = 0;
    std::map<std::int64_t, Lease> leases;
    std::optional<ElectedHost> key;
    std::int64_t record_lease = 0;
    void expire(MonoTime now);
  };
  struct Agent {
    std::unique_ptr<ElectionCore> core;
    NodeClock clock;
    std::uint64_t life = 0;
    bool cut = false;  // from etcd
    bool watches = false;
    std::int64_t watched = 0;         // revision
    std::uint64_t told = 0;           // the host that it was told of
    std::optional<MonoTime> find_at;  // after Nobody; this and the others on the world's clock
    MonoTime frozen_until{};
    MonoTime told_lost{};  // when the link to a host that is none any more breaks
  };

  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  Duration rarely(double seconds);
  MonoTime later() { return now_ + std::chrono::milliseconds(draw(1, slowest_ms_)); }
  MonoTime clock(std::size_t i) const { return agents_[i].clock.at(now_); }
  bool sure(std::size_t i) const { return agents_[i].core->sure(clock(i)); }
  void note(std::size_t i, const std::string& text);
  [[noreturn]] void fail(const std::string& why) const;

  void start(std::size_t i);
  void fault();
  void heal();
  void advance(MonoTime latest);
  void step(std::size_t i);
  void check();
  void call(std::size_t i, const std::function<ElectionEvent()>& what, const ElectionEvent& failed, Duration limit);
  void feed(std::size_t i, const ElectionEvent& event);
  void perform(std::size_t i, const election_action::Look&);
  void perform(std::size_t i, const election_action::Grant&);
  void perform(std::size_t i, const election_action::Campaign& campaign);
  void perform(std::size_t i, const election_action::Keep& keep);
  void perform(std::size_t i, const election_action::KeepRecord& keep);
  void perform(std::size_t i, const election_action::Revoke& revoke);
  void perform(std::size_t i, const election_action::Watch&);
  void perform(std::size_t i, const election_action::StopWatching&) { agents_[i].watches = false; }
  void perform(std::size_t i, const election_action::Here& here);
  void perform(std::size_t i, const election_action::There& there);
  void perform(std::size_t i, const election_action::Nobody&);
  void perform(std::size_t i, const election_action::Doubt&) { note(i, "is in doubt"); }
  void perform(std::size_t i, const election_action::Sure&) { note(i, "is sure again"); }
  void perform(std::size_t i, const election_action::Deposed& deposed);

  std::mt19937_64 random_;
  MonoTime now_{std::chrono::hours(1)};
  ElectionSettings settings_;
  ModelEtcd etcd_;
  NodeClock etcd_clock_;
  std::vector<Agent> agents_;
  std::multimap<MonoTime, std::function<void()>> queue_;
  std::map<std::uint64_t, MonoTime> answered_;  // the last time that the host of a term was sure, on the world's clock
  std::uint64_t lives_ = 0;
  int loss_ = 0, slowest_ms_ = 5, followed_ = 0;
  bool faulty_ = true;
  std::string trace_;
};

}  // namespace dtrain::sim
