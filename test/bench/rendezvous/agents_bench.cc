// A job of very many nodes: one process hosts its rounds as an agent does (OuterListener, RoundHost), others hold the
// links of all other agents, over loopback, encrypted or not. Agents without workers: what is measured is how they
// meet, what they cost while they only ping, and the round after one of them is lost. usage: agents_bench [--agents
// 10000] [--processes 2] [--at-once 256] [--idle SECONDS] [--plain]
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/agent_link/round_host.h"
#include "rendezvous/agent_link/round_link.h"
#include "rendezvous/net/listen.h"
#include "test/bench/rendezvous/agents.h"

namespace dtrain::bench {
namespace {

namespace asio = boost::asio;

constexpr auto kLongest = std::chrono::seconds(300);

double resident_mib() {
  std::ifstream in("/proc/self/statm");
  double pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * double(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

RoundSettings round_settings(const Plan& plan) {
  RoundSettings settings;
  settings.job = "bench";
  settings.host_agent = node_info(plan, 0).agent_id;
  settings.min_nodes = plan.agents / 2;
  settings.max_nodes = plan.agents + 1;
  settings.master_addr = "127.0.0.1";
  settings.master_port = 29500;
  settings.last_call_timeout = kLongest;
  return settings;
}

// The processes that play agents, and what they have reported.
class Players {
 public:
  using Heard = std::function<void()>;  // all of them have reported the same

  // Forks them.
  explicit Players(const Plan& plan) {
    for (int i = 0; i < plan.processes; ++i) {
      int ends[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair failed");
      const pid_t pid = ::fork();
      if (pid < 0) die("fork failed");
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(ends[0]);
        channels_.clear();  // those of the others
        play_agents(plan, 1 + i, plan.processes, ends[1]);
        std::exit(0);
      }
      ::close(ends[1]);
      channels_.emplace_back(ends[0]);
      pids_.push_back(pid);
    }
    reports_.resize(channels_.size());
  }
  // Ends them.
  void end() {
    streams_.clear();
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }

  void listen(asio::io_context& io, Heard heard) {
    heard_ = std::move(heard);
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      streams_.push_back(std::make_unique<asio::posix::stream_descriptor>(io, channels_[i].release()));
      wait(i);
    }
  }
  void tell(std::size_t player, char command) {
    if (::send(streams_[player]->native_handle(), &command, 1, MSG_NOSIGNAL) != 1) die("a process of agents died");
  }
  void tell_all(char command) {
    for (std::size_t i = 0; i < streams_.size(); ++i) tell(i, command);
  }
  Report::What what() const { return reports_.front().what; }
  // The last of their times, and the sums of the rest.
  Report total() const {
    Report total = reports_.front();
    for (std::size_t i = 1; i < reports_.size(); ++i) {
      const Report& one = reports_[i];
      total.at = std::max(total.at, one.at);
      total.told += one.told, total.said += one.said, total.attempts += one.attempts, total.lost += one.lost,
          total.cpu += one.cpu;
      if (one.trouble[0] != 0) total.trouble = one.trouble;
    }
    return total;
  }

 private:
  void wait(std::size_t i) {
    streams_[i]->async_wait(asio::posix::stream_descriptor::wait_read, [this, i](const boost::system::error_code& ec) {
      if (ec) return;
      if (::recv(streams_[i]->native_handle(), &reports_[i], sizeof(Report), 0) != ssize_t(sizeof(Report)))
        die("a process of agents died");
      if (++reported_ == reports_.size()) {
        reported_ = 0;
        heard_();
      }
      wait(i);
    });
  }

  std::vector<UniqueFd> channels_;
  std::vector<pid_t> pids_;
  std::vector<std::unique_ptr<asio::posix::stream_descriptor>> streams_;
  std::vector<Report> reports_;
  std::size_t reported_ = 0;
  Heard heard_;
};

// The agent that hosts the job, and the steps of the measurement.
class Host {
 public:
  Host(asio::io_context& io, const Plan& plan, UniqueFd listener, Players& players)
      : io_(io),
        plan_(plan),
        players_(players),
        host_(io, round_settings(plan), {[](int) {}, plan.pulse}),
        outer_(io, std::move(listener), outer_options()),
        own_(io, {[this](const RoundMessage& m) { own_told(m); }, [](const Error& e) { die(e.message); },
                  [](bool, const std::string& why, TlsFault) { die("the host's own link: " + why); }}),
        limit_(io),
        idle_(io) {
    limit_.expires_after(kLongest);
    limit_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) die("not done in time; an agent was last turned away with: " + trouble());
    });
    players_.listen(io, [this] { heard(); });
  }

  void start() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair failed");
    host_.adopt_own(UniqueFd(ends[0]));
    own_.join_own(UniqueFd(ends[1]), node_info(plan_, 0));
    resident_ = resident_mib();
    mark();
    players_.tell_all('j');
  }

 private:
  OuterListener::Options outer_options() {
    OuterListener::Options options;
    options.job = "bench";
    options.credential = plan_.secret;
    options.agent = [this](LinkSocket socket, const std::string& bytes) { host_.adopt(std::move(socket), bytes); };
    options.store = [](const LinkSocket&, const std::string&) { die("a link to the store?"); };
    options.log = [](const std::string& line) { std::fprintf(stderr, "  %s\n", line.c_str()); };
    return options;
  }
  void own_told(const RoundMessage& message) {
    if (const auto* stop = std::get_if<msg::Stop>(&message)) own_.send(msg::Over{stop->round, false});
    if (std::holds_alternative<msg::End>(message)) own_.close();
  }
  std::string trouble() const { return players_.total().trouble.data(); }

  void mark() {
    began_ = std::chrono::steady_clock::now();
    cpu_ = cpu_seconds();
  }
  double passed(const Report& report) const {
    return 1e-9 * double(report.at - std::chrono::nanoseconds(began_.time_since_epoch()).count());
  }

  void heard() {
    const Report report = players_.total();
    switch (report.what) {
      case Report::What::opened:
        return round_++ == 0 ? met(report) : went_on(report);
      case Report::What::stopped:
        std::printf("  one is lost: the others told to stop after %.2f s\n", passed(report));
        return;
      case Report::What::ended:
        std::printf("  end: all told after %.2f s\n", passed(report));
        io_.stop();
    }
  }

  void met(const Report& report) {
    const double agents = plan_.agents;
    const double cpu = cpu_seconds() - cpu_;
    std::printf(
        "  all joined and in the round after %.2f s; CPU of the host %.2f s (%.0f us an agent), of the agents' "
        "processes %.2f s: %.0f %% of what was used\n",
        passed(report), cpu, 1e6 * cpu / agents, report.cpu, 100 * report.cpu / (cpu + report.cpu));
    std::printf("  messages an agent: %.2f to it, %.2f from it; %.0f of %.0f connections were turned away%s%s\n",
                double(report.told) / agents, double(report.said) / agents, double(report.attempts) - agents,
                double(report.attempts), report.trouble[0] != 0 ? ": " : "", report.trouble.data());
    const double now = resident_mib();
    std::printf("  memory of the host: %.0f MiB (%.1f KiB an agent)\n", now, (now - resident_) * 1024 / agents);
    mark();
    idle_.expires_after(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(plan_.idle)));
    idle_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) lose_one();
    });
  }

  void lose_one() {
    std::printf("  idle, with pings: %.1f %% of a CPU\n", 100 * (cpu_seconds() - cpu_) / plan_.idle);
    mark();
    players_.tell(0, 'l');
  }

  void went_on(const Report& report) {
    const auto& pulse = plan_.pulse;
    const double fence = std::chrono::duration<double>(pulse.stop_after() + pulse.kill_grace()).count();
    std::printf(
        "  the next round is open for all after %.2f s (at most %g s of it wait for the lost node's workers); "
        "CPU of the host %.2f s\n",
        passed(report), fence, cpu_seconds() - cpu_);
    if (report.lost > 0) std::printf("  %lld links were lost\n", static_cast<long long>(report.lost));
    mark();
    host_.close({JobEnd::stopped, 0, -1, "the benchmark is over"});
  }

  asio::io_context& io_;
  const Plan& plan_;
  Players& players_;
  RoundHost host_;
  OuterListener outer_;
  RoundLink own_;
  asio::steady_timer limit_, idle_;
  std::chrono::steady_clock::time_point began_{};
  double cpu_ = 0, resident_ = 0;
  int round_ = 0;
};

Plan plan_of(int argc, char** argv) {
  Plan plan;
  plan.secret = must(JobSecret::generate());
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--plain") {
      plan.secret.reset();
      continue;
    }
    if (flag == "--agents")
      plan.agents = std::atoi(value);
    else if (flag == "--processes")
      plan.processes = std::atoi(value);
    else if (flag == "--at-once")
      plan.at_once = std::atoi(value);
    else if (flag == "--idle")
      plan.idle = std::atof(value);
    else
      die("unknown flag " + std::string(flag));
    ++i;
  }
  if (plan.processes < 1 || plan.at_once < 1 || plan.agents < 2 * plan.processes || plan.idle <= 0)
    die("these numbers make no sense");
  return plan;
}

void need_files(const Plan& plan) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto needed = rlim_t(plan.agents) + 100;
  if (files.rlim_max < needed) die("needs `ulimit -Hn` of " + std::to_string(needed) + " at least");
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace
}  // namespace dtrain::bench

int main(int argc, char** argv) {
  using namespace dtrain;
  bench::Plan plan = bench::plan_of(argc, argv);
  bench::need_files(plan);
  UniqueFd listener = bench::must(listen_at("0.0.0.0", 0));
  plan.port = bench::must(port_of_socket(listener.get()));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%d agents, %s\n", plan.agents, plan.secret ? "encrypted" : "plain");
  bench::Players players(plan);
  boost::asio::io_context io(1);
  bench::Host host(io, plan, std::move(listener), players);
  host.start();
  io.run();
  players.end();  // before `io`
}
