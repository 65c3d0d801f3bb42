#pragma once
// The rounds of one job, hosted by one of its agents or by a standing server, on that process's event loop: connections
// in, RoundCore's actions out. It has no port: on one host the worker store hands over the connections that begin with
// kRoundGreeting; across hosts OuterListener does. No timer runs while a job on one host does.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/agent_link/round_channel.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_core.h"
#include "rendezvous/rounds/vouch_desk.h"

namespace dtrain {

// What is asked of a host that its nodes can follow (succession_core.h), and told to it.
struct RoundSuccession {
  std::function<void(VoterId voter, MonoTime stamp, int round)> echoed;
  std::function<void(VoterId voter)> left;
  std::function<int()> settled_round;
  std::function<std::vector<VoterSet>()> earlier;
  std::function<std::optional<msg::HostAt>(const msg::Seek&)> seeker;
};

class RoundHost {
 public:
  struct Options {
    // Forget every key; when it returns the store serves this round.
    std::function<void(int round)> fresh_store;
    // Across hosts: a node that is silent for so long is lost.
    std::optional<PulseSettings> pulse{};
    // Of a host that others may follow. While it is false no ping is answered, so that the nodes stop by themselves
    // (where they choose the host, they are told its stamp all the same).
    std::function<bool()> sure{};
    // Before a round opens: nothing is told anybody until `go` is called. Never called: the host is none any more.
    std::function<void(int round, int restarts, int nodes, const VoterSet& voters, std::function<void()> go)>
        before_round{};
    // Across hosts: vouch() is used.
    bool vouches = false;
    // A server of many jobs, which has no agent of the job.
    bool standing = false;
    std::optional<RoundSuccession> succession{};
    // One line for the user of the host.
    std::function<void(const std::string&)> say{};
  };
  RoundHost(boost::asio::io_context& io, RoundSettings settings, Options options);
  ~RoundHost();
  RoundHost(const RoundHost&) = delete;
  RoundHost& operator=(const RoundHost&) = delete;

  // A new connection, with the bytes (plaintext) that were read from it.
  void adopt(LinkSocket socket, const std::string& received);
  // That of the agent which this runs in: it cannot be cut off.
  void adopt_own(UniqueFd socket);
  // Whether this user has made that connection, on the host of an agent that is here (vouch_desk.h).
  void vouch(const TcpEnds& ends, VouchDesk::Answer answer) { desk_.question(ends, std::move(answer)); }
  // Somebody was turned away before it could join; `told`: the user knows.
  void turned_away(const std::string& line, bool told);
  // The host leaves: end the job if it has not ended.
  void close(const Verdict& verdict);
  // Every agent has gone.
  bool empty() const { return channels_.empty(); }
  // Called when empty() has become true.
  std::function<void()> on_empty;
  // Called once, when the job has ended and its agents were told.
  std::function<void()> on_ended;
  std::size_t connections() const { return channels_.size(); }
  const RoundCore& core() const { return core_; }
  JobFacts facts() const { return core_.facts(SteadyClock::now()); }

 private:
  struct Peer {
    std::shared_ptr<RoundChannel> channel;
    std::unique_ptr<boost::asio::steady_timer> greeting;  // until it is a node
    std::optional<msg::Join> join{};                      // until it says Here
    std::optional<LinkSilence> silence;
    std::string address;                 // where it comes from, across hosts
    std::optional<std::int64_t> pinged;  // what it said, which is to be answered
    VoterId voter = 0;
  };

  Peer* add(LinkSocket socket, const std::string& received);
  void received(MemberId id, const RoundMessage& message);
  void pinged(MemberId id, const msg::Ping& ping);
  void closed(MemberId id);
  void drop(MemberId id);
  void await_greeting(MemberId id);
  bool late(MemberId id) const;
  static bool may_say(const Peer& peer, const RoundMessage& message);
  void welcome(MemberId id, const msg::Join& join);
  void look_for_silence();
  void read_waiting(MemberId id);
  void perform(const std::vector<RoundAction>& actions);
  void perform(const RoundAction& action);
  void round_allowed();
  void arm();
  void listen_for_silence();
  void answer_ping(MemberId id);
  void ask_whose(MemberId id, const msg::Whose& whose);

  boost::asio::io_context& io_;
  RoundCore core_;
  const Options options_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer silence_timer_;
  bool listens_ = false;  // silence_timer_ runs
  bool ended_ = false;    // on_ended was called
  std::map<MemberId, Peer> channels_;
  std::vector<RoundAction> held_;  // until the round may open
  bool holds_ = false;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
  MemberId last_id_ = 0;
  VouchDesk desk_;
};

}  // namespace dtrain
