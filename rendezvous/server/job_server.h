#pragma once
// A standing server: the rounds and the worker stores of many jobs behind one port. A job begins with the first agent
// that joins it, as that agent has it, and is forgotten when it has ended and its agents have gone. Jobs share nothing
// but the port: each has a core, a store and keys of its own. On one event loop; each store has a thread.
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/discard.h"
#include "rendezvous/base/report_limit.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/rounds/round_messages.h"
#include "rendezvous/store/store_limits.h"

namespace dtrain {

struct JobServerLimits {
  std::size_t jobs = 256;
  bool each_once = false;                                        // a job that has ended has no other one of its name
  std::size_t nodes = 16384;                                     // of all jobs together
  StoreHostLimits store{.wire = {}, .core = {.keys = 1000000}};  // of one job
};

class JobServer {
 public:
  struct Options {
    LinkCredential credential;
    JobServerLimits limits;
    // One line for connections that are turned away, and what hosts of jobs say.
    std::function<void(const std::string& line)> log;
    // One line for each job that begins or ends.
    std::function<void(const std::string& line)> news = log;
  };

  // `listener`: a listening, non-blocking socket.
  JobServer(boost::asio::io_context& io, UniqueFd listener, Options options);
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  // Take no new jobs. When the last one is forgotten `on_empty` is called, perhaps from within.
  void drain(std::function<void()> on_empty);
  // End all jobs.
  void end_all(const Verdict& verdict);

  using JobNow = std::pair<std::string, JobFacts>;  // its --rdzv-id
  std::vector<JobNow> jobs(std::size_t most) const;
  std::size_t job_count() const { return jobs_.size(); }

 private:
  struct Served;
  using ServedPtr = std::unique_ptr<Served>;
  struct Ended {
    std::uint64_t term = 0;
    std::string reason;
  };

  void agent(LinkSocket socket, const std::string& received);
  void store(LinkSocket socket, std::string received);
  std::string why_not() const;
  Result<Served*> open(const std::string& key, const NodeInfo& first);
  void ended(Served& served);
  void emptied(Served& served);
  void turn_away(LinkSocket socket, const std::string& job, const std::string& reason, bool try_again);
  void forget_soon(const Served& served);
  void forget(const std::string& key, std::uint64_t number);
  void remember(const std::string& key, Ended ended);
  std::size_t nodes() const;

  boost::asio::io_context& io_;
  const Options options_;
  const MonoTime begun_ = SteadyClock::now();
  std::map<std::string, ServedPtr> jobs_;  // by the name that an identity has
  std::map<std::string, Ended> ended_;     // how jobs of this name ended last
  std::deque<std::string> ended_first_;    // the same, oldest first
  std::uint64_t last_number_ = 0;
  std::string last_turned_away_;           // what was said of it
  ReportLimit reports_{10};                // of nodes that are turned away
  Discard discard_{options_.limits.jobs};  // of stores
  bool draining_ = false;
  std::function<void()> on_empty_;
  std::unique_ptr<OuterListener> outer_;  // last: it hands over to the jobs
};

}  // namespace dtrain
