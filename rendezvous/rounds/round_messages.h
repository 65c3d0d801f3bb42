#pragma once
// What the agents of one job say to each other: an agent to the one that hosts the rounds (RoundCore), and back. Plain
// data; round_wire.h makes bytes of it.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/tcp_ends.h"
#include "rendezvous/rounds/job_facts.h"

namespace dtrain {

// An agent, where nodes choose their host (succession_core.h): made of its agent_id.
using VoterId = std::uint64_t;
using VoterSet = std::vector<VoterId>;
inline constexpr std::size_t kMostVoters = 256;  // of a round, by node rank
inline constexpr std::size_t kMostVoterSets = 4;
inline constexpr std::size_t kMostCandidates = 5;

struct Candidate {
  VoterId voter = 0;
  std::string address;  // numeric, where it listens
  int port = 0;         // 0: nowhere
  bool operator==(const Candidate&) const = default;
};

// Who may choose another host if that of a round is lost; no voters: nobody.
struct Electorate {
  VoterId host = 0;
  VoterSet voters{};
  std::vector<VoterSet> earlier{};  // a majority of each of these is needed too, until the round is settled
  std::vector<Candidate> candidates{};
  bool operator==(const Electorate&) const = default;
};

// Where an agent was last, for a host that is new or has given it up.
struct LastPlace {
  std::uint64_t term = 0;  // of the host that it heard last
  int round = -1;          // -1: it was in none
  int node_rank = -1;
  int nodes = 0;  // of that round
  int restarts = 0;
  VoterId host = 0;  // of that round; 0: the nodes choose none
  bool operator==(const LastPlace&) const = default;
};

// Of --rdzv-conf: for a host that is no agent of the job and has no settings of its own.
struct NodeTimes {
  int join_ms = 600000;
  int last_call_ms = 30000;
  int pulse_ms = 1000;  // PulseSettings, which both ends of a link must have
  int pulse_attempts = 3;
  bool rejoin = false;
  bool operator==(const NodeTimes&) const = default;
};

// What an agent says about itself and about the job as its user typed it.
struct NodeInfo {
  std::string job;       // --rdzv-id
  std::string agent_id;  // random, one for each agent
  std::string host;
  int pid = 0;  // of the agent
  std::string role;
  std::string topology;  // --topology: nodes with the same are near each other
  int workers = 1;
  int wanted_rank = -1;  // --node-rank of a static job; -1: any
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  int stop_ms = 0;           // how long the agent may need to stop its workers
  bool real_master = false;  // its workers come to the store by themselves (--master-addr real)
  LastPlace last{};
  NodeTimes times{};
  std::string seen_at{};  // numeric: where its connection comes from; its host fills it in, it is not sent
  int attempt = 0;        // counts its Joins: one that was given up may come after the next
  std::string address{};  // where it listens, should it become a candidate; empty: nowhere
  int port = 0;
  bool operator==(const NodeInfo&) const = default;
};

// The place of one node in a round.
struct NodePlace {
  int round = 0;
  int restart_count = 0;
  int node_rank = 0;
  int nodes = 1;
  int base_rank = 0;  // of its local rank 0
  int world_size = 1;
  int base_role_rank = 0;
  int role_world_size = 1;
  std::string master_addr;
  int master_port = 0;
  bool uniform = true;  // all nodes have the same number of workers
  bool operator==(const NodePlace&) const = default;
};

// How the whole job ended; every agent ends with exit_code.
enum class JobEnd : std::uint8_t { success, failure, stopped, lost, timeout, refused };
inline constexpr int kJobEnds = 6;
struct Verdict {
  JobEnd how = JobEnd::success;
  int exit_code = 0;
  int node_rank = -1;  // where the cause was; -1: nowhere in particular
  std::string reason;  // one line
  bool operator==(const Verdict&) const = default;
};

namespace msg {

// ---- agent -> host
struct Join {
  NodeInfo node;
  bool operator==(const Join&) const = default;
};
// In place of a rank: nobody is blamed; or another rank is, and it is not known which.
inline constexpr int kNobody = -1;
inline constexpr int kSomebody = -2;

// A worker failed, or has ended with 0 and is blamed by others; the agent is stopping the others of its node. It may
// come again, with a better answer to the same question.
struct Failed {
  int round = 0;
  int local_rank = 0;
  std::string what;
  int exit_code = 1;           // 0: not known here, others have it
  bool never_started = false;  // trying again would give the same
  // The rank that it blames for its end, and what that did; kNobody, kSomebody: as below.
  int because_of = kNobody;
  std::string because{};
  bool operator==(const Failed&) const = default;
};
// Nothing is left of the round on this node. ok: every worker ended with 0.
struct Over {
  int round = 0;
  bool ok = false;
  int left = kNobody;  // the rank that was the last to end with 0 before anybody told it to end
  bool operator==(const Over&) const = default;
};
// The user stops this node; Over follows when its workers have ended.
struct Leaving {
  int signal = 0;        // of the user's; 0: the engine that had started this node is gone
  bool running = false;  // its workers ran until then: what failed elsewhere since may have come of it
  bool operator==(const Leaving&) const = default;
};
// Across hosts, again and again: I am here (link_pulse.h).
struct Ping {
  std::int64_t sent = 0;   // on the agent's own clock; the answer brings it back
  std::int64_t stamp = 0;  // of the last answer; 0: none yet (host_lease.h)
  int round = -1;          // the last one of this host that has opened here
  bool operator==(const Ping&) const = default;
};

// For `dtrain status`: what do you know? Facts is the answer.
struct Ask {
  bool operator==(const Ask&) const = default;
};

// The answer to Whose.
struct Owned {
  std::uint64_t question = 0;
  bool yes = false;
  bool operator==(const Owned&) const = default;
};

// ---- agent that has lost its host -> candidate (succession_core.h)
struct Seek {
  VoterId voter = 0;
  std::uint64_t last_term = 0;
  int last_round = -1;         // that it was in
  std::uint64_t promised = 0;  // it cannot join the host because it has voted in this term; 0: it can
  // Where it listens; port 0: it is no candidate.
  std::string address{};
  int port = 0;
  bool operator==(const Seek&) const = default;
};
// The answer to a Ballot.
struct Vote {
  std::uint64_t term = 0;  // of the ballot
  std::int64_t stamp = 0;  // of the ballot
  bool granted = false;
  std::int64_t age = 0;    // so many nanoseconds ago the voter took the last stamp of another
  std::uint64_t seen = 0;  // the highest term that it knows
  bool operator==(const Vote&) const = default;
};

// The answer to Welcome, and from then on the node counts. One that gave its host up had not been welcomed.
struct Here {
  bool operator==(const Here&) const = default;
};

// ---- host -> agent
struct Refused {
  std::string reason;
  bool try_again = false;
  bool operator==(const Refused&) const = default;
};
struct Waiting {
  int nodes = 0;  // that are here
  int min_nodes = 1;
  int max_nodes = 1;
  std::int64_t left_ms = -1;  // until the waiting ends, one way or the other; -1: no limit
  bool spare = false;         // the job runs without this node, which waits for a place
  std::string reason{};       // what ended the round before, if that is why nodes are missing
  std::string names{};        // who is missing, or where that is not known, who is there; for people, may be empty
  bool operator==(const Waiting&) const = default;
};
struct Open {
  NodePlace place;
  // Of the host: whoever follows another as the host of a job has a higher one, and a lower one is not obeyed. 0: where
  // nobody follows.
  std::uint64_t term = 0;
  Electorate electorate{};
  bool operator==(const Open&) const = default;
};
// Stop the workers of this round, then say Over.
struct Stop {
  int round = 0;
  int signal = 0;  // that the workers get: the one that the user sent to a node; 0: the usual
  std::string reason;
  // Whom workers elsewhere blame: its node reports how it ended, before it stops it.
  int because_of = kNobody;
  std::string because{};
  bool operator==(const Stop&) const = default;
};
struct End {
  Verdict verdict;
  bool operator==(const End&) const = default;
};
// I have heard the ping that was sent then.
struct Pong {
  std::int64_t sent = 0;   // 0: the host is not sure that it is the host
  std::int64_t stamp = 0;  // on the host's own clock; the next ping brings it back
  int settled = -1;        // the last round that is settled
  bool operator==(const Pong&) const = default;
};
struct Facts {
  JobFacts job;
  bool operator==(const Facts&) const = default;
};
// A TCP connection has come from your host (`ends`: as seen from there). Has this user made it?
struct Whose {
  std::uint64_t question = 0;
  TcpEnds ends;
  bool operator==(const Whose&) const = default;
};
// The answer to Join: say Here, and you are a node of the job.
struct Welcome {
  bool standing = false;  // this host is a server of many jobs: if it is not there, it may be again
  bool operator==(const Welcome&) const = default;
};

// ---- candidate -> agent that has lost its host
struct Ballot {
  std::uint64_t term = 0;
  std::int64_t stamp = 0;  // on the candidate's own clock
  std::uint64_t last_term = 0;
  int last_round = -1;  // that the candidate was in
  bool operator==(const Ballot&) const = default;
};
// The host is there.
struct HostAt {
  std::uint64_t term = 0;
  std::vector<std::string> addresses;
  int port = 0;
  int settled = -1;  // its last round that is settled
  bool operator==(const HostAt&) const = default;
};

}  // namespace msg

using RoundMessage = std::variant<msg::Join, msg::Failed, msg::Over, msg::Leaving, msg::Ping, msg::Ask, msg::Owned,
                                  msg::Seek, msg::Vote, msg::Here, msg::Refused, msg::Waiting, msg::Open, msg::Stop,
                                  msg::End, msg::Pong, msg::Facts, msg::Whose, msg::Welcome, msg::Ballot, msg::HostAt>;

// Of an agent_id; never 0.
VoterId voter_id(const std::string& agent_id);

}  // namespace dtrain
