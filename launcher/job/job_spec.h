#pragma once
// JobSpec: what the user asked for, resolved against this machine and immutable from then on. cli/resolve/resolve makes
// it, the agent carries it out. Every default is named here and nowhere else.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/cpu_set.h"
#include "launcher/job/rank_set.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/rounds/link_pulse.h"

namespace dtrain::launcher {

class ConsoleTurns;  // launcher/terminal/console_turns.h

// Bit mask of a worker's output streams, as in torchrun's -r/-t: 1 stdout, 2 stderr.
enum class Streams : unsigned { none = 0, out = 1, err = 2, all = 3 };

// torchrun's STD map: one value for every local rank, or a value for some (the others: none).
struct StreamMap {
  Streams everywhere = Streams::none;
  std::map<int, Streams> by_local_rank;  // if not empty, it alone counts

  Streams of(int local_rank) const {
    if (by_local_rank.empty()) return everywhere;
    auto it = by_local_rank.find(local_rank);
    return it == by_local_rank.end() ? Streams::none : it->second;
  }
  bool any() const { return everywhere != Streams::none || !by_local_rank.empty(); }
};
inline bool has(Streams set, Streams bit) { return (unsigned(set) & unsigned(bit)) != 0; }

// How strongly the workers are held together (docs/supervision.md). `automatic` takes cgroup where a cgroup v2 subtree
// is writable, else subreaper. An explicit level that this machine cannot give is an error, never a silent demotion.
enum class Containment { automatic, cgroup, subreaper, pidns };

// Who reads dtrain's standard input. `all`: every worker inherits it, as under torchrun. `rank`: one local rank has it,
// the others read /dev/null. `none`: all read /dev/null.
struct StdinMode {
  enum class Kind { all, rank, none } kind = Kind::all;
  int local_rank = 0;
};

// The user's etcd, where the nodes find out who hosts the job; or the job's own.
struct EtcdPlace {
  struct Member {
    std::string name;                    // as typed
    std::vector<std::string> addresses;  // numeric
    std::uint16_t port = 2379;
  };
  std::vector<Member> members;
  bool https = false;
  std::string ca, certificate, key;  // files; none: the machine's authorities, no certificate of our own
  std::string user, password_file;
  std::string prefix = "/dtrain";
  int lease_ttl = 2;  // seconds that a host is one after its last word to etcd
  // --ha: the nodes start the members, and know them by certificates made of the job's secret; without, by nothing.
  struct Own {
    int self = -1;                   // the member that this node starts; -1: none. The rest is of that one
    std::string program;             // etcd
    std::string address;             // numeric: where it listens; "::": everywhere
    std::uint16_t peer_port = 0;     // of each member, for the others; 0: the one after its other port
    std::vector<std::string> names;  // what its certificate is good for
    std::string folder;              // private, and there
  };
  std::optional<Own> own;
};

// Which nodes form the job, and where they meet (docs/nodes.md). One node that names no port keeps all defaults.
struct NodesSpec {
  int min = 1;
  int max = 1;
  int node_rank = -1;                              // as the user numbered the nodes (static); -1: as they come
  std::string topology;                            // nodes with the same have ranks in a row
  std::string address = "127.0.0.1";               // numeric, of this host: where the rounds and the workers' store are
  uint16_t port = 0;                               // there; 0: a free one
  std::string master_addr = "127.0.0.1";           // the same address as the workers are told it
  std::chrono::milliseconds join_timeout{600000};  // for `min` nodes to come
  std::chrono::milliseconds last_call_timeout{30000};  // after that, for more of them
  // The nodes are on several hosts, and their agents know each other by `credential`; or, with --insecure, not at all.
  bool across_hosts = false;
  std::optional<LinkCredential> credential;
  // A secret goes from node to node by MUNGE: node 0 has made it (`credential`), the others ask it. munged's socket, or
  // empty: the usual one.
  std::optional<std::string> munge_socket;
  bool insecure = false;
  // Across hosts the workers go to the store at the host's real address, not by their own agent. The same on all nodes.
  bool real_master = false;
  // Across hosts `address` is where this agent would host the job ("::": everywhere), or empty: another host does.
  // What people call the nodes, by node rank, where somebody has told; else empty.
  std::vector<std::string> names;
  std::vector<std::string> addresses;  // numeric: where the others find the host
  PulseSettings pulse;
  // Then `address` is where this agent would listen, or empty: at the address that leads to etcd.
  std::optional<EtcdPlace> etcd;
  // Across hosts, nodes as they come: a node that was cut off joins again, and one that is lost is awaited.
  bool rejoin = false;
  // With that: the nodes may choose another host if theirs is lost.
  bool succession = false;

  bool several() const { return max > 1; }
};

// Where Kubeflow Trainer takes the status of a job (KEP-2779), as it tells its pods.
struct StatusServer {
  std::string url;
  std::string ca_file;     // empty: the machine's authorities
  std::string token_file;  // empty: none
};

struct PlannedSignal {
  MonoTime at{};
  int signal = 0;
};

enum class Color { automatic, always, never };

// What the console shows, and how.
struct ConsoleSettings {
  // torchrun's way with streams that are not tee'd: no prefix, and where the console is a terminal the worker has it
  // itself, not a pipe.
  bool raw = false;
  // Whose lines are shown: ranks that are in both; none: all. The others' output goes to their files, or nowhere.
  std::optional<RankSet> ranks;
  std::optional<RankSet> local_ranks;

  bool timestamps = false;  // the time before each line
  bool fold = false;        // identical lines of several ranks are shown once
  bool utf8 = true;         // whether the user's locale can show what is not ASCII
  // Of a replica group: it shares the console with the others; and its name, before folded ranks.
  ConsoleTurns* turns = nullptr;
  std::string group;

  bool shows(int rank, int local_rank) const {
    return (!ranks || ranks->contains(rank)) && (!local_ranks || local_ranks->contains(local_rank));
  }
};

// Replica groups (docs/training/replica-groups.md): each is a job of its own on one node.
struct ReplicaSettings {
  int groups = 0;                    // on all nodes; 0: the job is one
  int here = 0;                      // on this node
  int first = 0;                     // of those: the number of the first one
  int at = 0;                        // in the spec of one group (launcher/replicas/group_specs.h): its place among them
  bool hip = false;                  // `devices` are HIP's
  std::vector<std::string> devices;  // of each group here, as in CUDA_VISIBLE_DEVICES; empty: all groups see all

  int group() const { return first + at; }
};

// What comes of a job that was stopped.
enum class NextRun { may_come, none, cancelled };

// Files in which the kept state goes from one run of the job to the next (launcher/spill).
struct StateFiles {
  std::string folder;          // it is there
  std::string key;             // the job, in all its runs
  int node = 0, nodes = 1;     // the same numbers in each run
  bool after_failure = false;  // a job that has failed may run again
  // Of a job that goes back into SLURM's queue by itself: from when on it does so unless it succeeds, and when SLURM
  // ends it.
  std::optional<MonoTime> asked{};
  MonoTime ends{};
  // Of a job that was stopped; none: it may run again. Takes a few seconds at most.
  std::function<NextRun()> next_run{};
};

struct JobSpec {
  // Identity of the job: TORCHELASTIC_RUN_ID, the name of its log folder and of its cgroup.
  std::string run_id;
  // The worker's argv; argv[0] is a path or a name to look up in PATH. `${local_rank}` and `$local_rank` in any element
  // are replaced per worker; everything else is the program's, verbatim.
  std::vector<std::string> argv;
  // Also make `$$` a `$`, as torchrun does (string.Template.safe_substitute). Set when called by that name.
  bool collapse_double_dollar = false;
  // What the user calls the program in messages and reports (the script for python, else argv[0]).
  std::string program;

  NodesSpec nodes;
  int nproc_per_node = 1;        // workers on this node, >= 1; with replica groups: of each group
  std::string role = "default";  // ROLE_NAME
  std::string strategy;          // DTRAIN_STRATEGY, a word or JSON; empty: not set
  std::string loader;            // DTRAIN_LOADER, JSON; empty: not set
  bool horovod = false;          // HOROVOD_RANK and the like
  bool keep_state = false;       // a memory for each worker, from round to round (launcher/agent/state_memory.h)
  bool copy_state = false;       // with keep_state: a second one, for the state of a worker on another node
  std::optional<StateFiles> state_files;  // with keep_state
  int max_restarts = 0;                   // restarts of the worker group after a failure, >= 0
  int survivors = 0;                      // GroupSettings::survivors
  // Then `cpus` and `own_devices` are those of the workers of all groups.
  ReplicaSettings replicas;

  // From the first TERM to KILL: after a worker failed, and after the user (or the system) asked to stop.
  std::chrono::milliseconds failure_grace{5000};
  std::chrono::milliseconds shutdown_timeout{30000};
  // How long a failure may turn out to be the first that is seen of a stop signal (GroupSettings).
  std::chrono::milliseconds failure_settles{0};
  // From KILL to giving up on processes that do not die (state D); they are reported.
  std::chrono::milliseconds kill_timeout{8000};

  // Base folder of the logs; each job makes <log_dir>/<run_id>_<random>/attempt_<n>/<local_rank>/ in it. Empty: a fresh
  // folder in $TMPDIR when a stream goes to files, and for error files. "/dev/null": no files at all.
  std::string log_dir;
  StreamMap redirects;  // to files only
  StreamMap tee;        // to files and to the console

  // Tee'd lines that contain one of these go to <attempt>/filtered_stdout.log and filtered_stderr.log as well.
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;

  Containment containment = Containment::automatic;
  StdinMode stdin_mode;
  // The local rank that has the terminal; its output goes there and nowhere else.
  std::optional<int> attach;
  Color color = Color::automatic;
  ConsoleSettings console;
  // Text before a line on the console; ${role_name}, ${local_rank}, ${rank} and ${hostname} are replaced; empty: none.
  std::string prefix_template = "[${rank}] ";
  // Signals that are passed to the workers and do not end the job.
  std::vector<int> passed_signals;
  // Signals that stop the job: passed to the workers first, then KILL after shutdown_timeout.
  std::vector<int> stop_signals;
  // Signals that come by themselves, as if somebody had sent them; in the order of their times.
  std::vector<PlannedSignal> planned_signals;
  // A pidfd: the job is stopped when that process dies. -1: there is none.
  int ends_with = -1;
  std::vector<NetworkPlace> started_from;  // FrontSignals::started_from
  // Signals for the job from an engine (FrontSignals::orders). -1: there is none.
  int orders = -1;
  bool only_orders = false;  // FrontSignals::only_orders
  // The CPUs that each local rank is bound to; empty: the workers are not bound.
  std::vector<CpuSet> cpus;
  // Set on top of dtrain's own environment for every worker (e.g. OMP_NUM_THREADS), before the worker contract.
  std::vector<std::pair<std::string, std::string>> extra_env;
  // --virtual-local-rank: LOCAL_RANK is 0 everywhere, and a worker sees only the device of its local rank.
  struct OwnDevices {
    std::vector<std::string> by_local_rank;  // values for CUDA_VISIBLE_DEVICES; empty: off
    bool hip = false;                        // HIP_VISIBLE_DEVICES too
  } own_devices;
  // Where the JSON failure report goes besides the log folder; empty: only there.
  std::string report_path;
  std::optional<StatusServer> status_server;
  // Events as lines of JSON on stderr (launcher/events/event_log.h), and the name of the rendezvous in them.
  bool event_log = false;
  std::string rdzv_backend = "c10d";
  // Called by the name of torchrun: the report has torchrun's layout, and a failed worker's exit code becomes 1.
  bool torchrun_report = false;
  std::string lead;      // of each line of dtrain's own about the job: which of several it is
  bool quiet = false;    // no line about the job at its start and at its success
  bool verbose = false;  // a line about containment; not with quiet
};

}  // namespace dtrain::launcher
