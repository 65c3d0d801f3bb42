#pragma once
// How an engine that runs a command on each host (ssh) gets a job's agents to start together. Each agent shows a card,
// gets its task, and says whether it can carry that out; the job begins once all of them can. Pure: `ssh` and its pipes
// are in launcher/hosts.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engine_wire/agent_wire.h"
#include "launcher/engines/hostfile.h"
#include "rendezvous/agent_link/relay_frames.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct PlacementRequest {
  std::vector<PlacedHost> hosts;    // at least one
  int least = 1;                    // hosts that must answer; the job begins without others
  AgentTask task{};                 // of each agent, without what the cards decide of its place
  bool meets_elsewhere = false;     // the user has said where the nodes meet
  bool numbered = true;             // the nodes have a --node-rank
  bool elastic = false;             // the job goes on without hosts that are lost
  bool grows = false;               // and the engine seeks others in their place; needs rounds_at
  bool apart = false;               // the agents do not meet: each has replica groups of its own
  bool shares_hosts = false;        // agents may be on one host, by different names or the same
  bool named_by_cards = false;      // the hosts' names are the engine's for its agents; the cards have better ones
  bool begins_late = false;         // the patience begins with the first card: the engine has other work before that
  std::vector<std::string> here{};  // names of this host, whose agent needs no connection
  bool only_looks = false;          // nothing runs: each agent answers its task, and then they end
  int fanout = 0;                   // how many hosts one host reaches by ssh; 0: this one reaches all
  std::vector<int> through{};       // by host: the one that reaches it, or -1; empty: this one reaches all
  std::string port{};               // on node 0; empty: one of the job's
  std::optional<AgentCard> rounds_at{};  // the host where the nodes meet, at `port`; nothing: on node 0
  std::string version{};                 // of this dtrain
};

// Whether this host of a request is the one that asks.
bool is_here(const PlacementRequest& request, std::size_t host);

class Placement {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(60);  // with all cards, and then with all answers
  static constexpr std::size_t kAtOnce = 64;                       // commands that start here
  // What ssh ends with where there is no connection, or no more.
  static constexpr int kNoConnection = 255;
  // Of an agent that an engine has started: the engine has lost it, or the link to it is broken.
  static constexpr int kLost = kRelayLost;
  // Of an agent that starts others: it has been killed, and its connection, which is theirs, lives.
  static constexpr int kDied = kRelayDied;

  struct Order {
    // start: its command; send: a line; serve: a piece of the job's files; drop: end the command, without a word;
    // vacate: the engine may place another agent instead.
    enum class What { start, send, serve, drop, vacate } what = What::send;
    int host = 0;
    std::string line{};
    ShipPiece piece{};
    bool operator==(const Order&) const = default;
  };

  Placement(PlacementRequest request, MonoTime now);

  // The engine has one more host, the next one by number.
  void joined(PlacedHost host, MonoTime now);
  // A line of standard output before the agent runs: the agent's, or that of a login shell.
  void said(int host, std::string_view line, MonoTime now);
  // What is on its standard error, before it runs: the last line of it tells why an agent does not come.
  void complained(int host, std::string_view line);
  // A piece cannot be had.
  void cannot_serve(int host, const Error& why);
  // It has ended. `status`: its code, or minus the signal that has killed it, or kLost or kDied.
  void ended(int host, int status, MonoTime now);
  // A signal for the job. One that stops a job that does not run yet ends the placement.
  void signal(int number, bool stops);
  void look_at(MonoTime now);

  // Taken once, in this order.
  std::vector<Order> take_orders() { return std::exchange(orders_, {}); }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  // The job runs, or has run.
  bool has_begun() const { return has_begun_; }
  // So does this agent: from then on its output is the job's.
  bool has_begun(int host) const { return has_begun_ && agents_[static_cast<std::size_t>(host)].is_member; }
  std::optional<MonoTime> deadline() const;
  // The job's exit code, or why there is no job.
  const std::optional<Result<int>>& end() const { return end_; }

 private:
  static constexpr std::string_view kSsh = "ssh";
  enum class Stage { meeting, judging, running, over };
  struct Agent {
    enum class State { waiting, awaited, present, ready, gone } state = State::waiting;
    AgentCard card{};
    std::vector<std::string> complaints{};  // at most kComplaints
    bool is_member = false;
    bool is_late = false;              // it came when the job had been placed
    bool is_told = false;              // of one that is late: it has its task
    MonoTime due{};                    // of one that is late: when it must have answered
    std::optional<ShipPiece> asked{};  // the last one
    bool is_lost = false;              // it is gone and has not said with which code
    bool takes_others = false;         // so are those that are reached through it
    int code = 0;                      // if it is gone
  };

  const std::string& name(std::size_t host) const { return request_.hosts[host].name; }
  // Of those that were placed first.
  std::size_t count(Agent::State state) const;
  static bool answers(const Agent& agent);
  void send(std::size_t host, std::string line) { orders_.push_back({Order::What::send, int(host), std::move(line)}); }
  void start_more(MonoTime now);
  bool is_before_first_card() const;
  std::size_t most_at_once() const { return request_.through.empty() ? kAtOnce : agents_.size(); }
  // -1: none.
  int through(std::size_t host) const { return request_.through.empty() ? -1 : request_.through[host]; }
  std::string with_advice(std::string why, std::size_t host) const;
  std::string loss_of(std::size_t host, int status) const;
  std::string lost_with(std::size_t host) const;
  std::string last_words(std::size_t host) const;
  void begin();
  void end_placement(Result<int> end);
  void fail(Error error) { end_placement(std::move(error)); }
  void has_no_agent(std::size_t host, const std::string& why, ErrorKind kind = ErrorKind::system);
  void card_of(std::size_t host, std::string_view line, MonoTime now);
  void verdict_of(std::size_t host, std::string_view line, MonoTime now);
  void serve(std::size_t host, const ShipPiece& piece, MonoTime now);
  std::string shipped() const;
  void meet(MonoTime now);
  void assign(MonoTime now);
  Result<void> give_task(std::size_t host, const std::vector<std::size_t>& members);
  void give_late_task(std::size_t host, MonoTime now);
  void turn_away(std::size_t host, const std::string& why);
  void refuse(std::size_t host, const Error& why);
  void conclude_look(std::size_t host, const Result<void>& verdict);
  void drop_late();
  std::string endpoint(std::size_t host, const std::vector<std::size_t>& members) const;
  Error no_way(const std::vector<std::size_t>& members, std::size_t host) const;
  int exit_code() const;

  PlacementRequest request_;
  std::vector<Agent> agents_;
  Stage stage_ = Stage::meeting;
  bool has_begun_ = false, stopped_ = false, lost_first_ = false;
  MonoTime deadline_;
  std::vector<Order> orders_{};
  std::vector<std::string> notes_{};
  std::optional<Error> unseen_{};  // of a look: of the first agent whose answer was no
  std::optional<Result<int>> end_{};
};

}  // namespace dtrain::launcher
