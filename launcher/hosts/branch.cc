// Tested by test/process/ssh/tree_test.py.
#include "launcher/hosts/branch.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <csignal>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/hosts/branched_agents.h"
#include "launcher/hosts/pipe_writer.h"
#include "launcher/job/exit_codes.h"
#include "launcher/job/exit_status.h"
#include "launcher/ship/last_pieces.h"
#include "rendezvous/agent_link/relay_frames.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;
using What = BranchFrame::What;

constexpr std::size_t kMostUpwards = std::size_t{1} << 20;  // that waits, before agents have to

// Its own agent, which outlives it, and the others.
std::vector<AgentCommand> commands_of(const BranchPlan& plan) {
  std::vector<AgentCommand> commands{{{"/proc/self/exe", "agent"}, false}};
  commands.reserve(plan.commands.size() + 1);
  for (const auto& words : plan.commands) commands.push_back({words, true});
  return commands;
}

class Branch {
 public:
  Branch(const BranchPlan& plan, int input, const std::string& version, rlimit descriptors)
      : over_(plan.commands.size() + 1),
        left_(over_.size()),
        frames_(BranchDecoder::From::submitter, over_.size()),
        input_(io_, ::fcntl(input, F_DUPFD_CLOEXEC, 0)),
        up_(io_, {[this] { drained(); }, [this] { done_ = true; }}),
        agents_(io_, commands_of(plan), plan.fanout, version, descriptors) {
    up_.open(UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)));
    agents_.attach({[this](int stream, std::string_view bytes) { return take(stream, bytes); }, [](int) {},
                    [this](int agent, int status) { ended(agent, status); },
                    [this](int agent, const std::string& why) { complained(agent, why); }});
  }

  Result<int> run() {
    up_.send(branch_ready_line() + "\n");
    for (int agent = 0; agent < static_cast<int>(over_.size()); ++agent)
      if (auto started = agents_.start(agent); !started) {
        complained(agent, started.error().message);
        ended(agent, kExitNotExecutable);
      }
    listen();
    while (!done_ && io_.run_one() > 0) {
    }
    // As where there is no tree: ssh is killed with its helpers, such as a ProxyCommand.
    for (int agent = 1; agent < static_cast<int>(over_.size()); ++agent)
      if (over_[static_cast<std::size_t>(agent)] == 0) agents_.drop(agent);
    if (wrong_) return *wrong_;
    return left_ == 0 ? 0 : kExitOwnFailure;
  }

 private:
  void listen() {
    input_.async_read_some(asio::buffer(chunk_), [this](const boost::system::error_code& error, std::size_t count) {
      if (!error) frames_.feed({chunk_.data(), count});
      if (error || !obey_all()) done_ = true;
      if (!done_) listen();
    });
  }

  bool obey_all() {
    for (;;) {
      const auto frame = frames_.next();
      if (!frame || !*frame) return frame.ok() || refuse(frame.error());
      if (!obey(**frame)) return false;
    }
  }

  bool obey(const BranchFrame& frame) {
    if (frame.what == What::in) agents_.send_bytes(frame.agent, frame.bytes);
    if (frame.what == What::drop) drop(frame.agent);
    if (frame.what != What::piece && frame.what != What::again) return true;
    const bool is_new = frame.what == What::piece;
    const auto piece = is_new ? parse_branch_piece(frame.bytes) : named(frame.bytes);
    if (!piece) return refuse(piece.error());
    agents_.serve(frame.agent, piece->first, std::string(piece->second));
    if (is_new) pieces_.add(piece->first, std::string(piece->second));
    return true;
  }

  // Its own agent hears the end of its input, as that of an ssh which is dropped does.
  void drop(int agent) {
    if (agent == 0) return agents_.close_input(agent);
    agents_.drop(agent);
  }

  // One that has come before.
  Result<std::pair<ShipPiece, std::string_view>> named(std::string_view line) const {
    const auto piece = parse_ship_piece(line);
    if (!piece) return piece.error();
    if (const std::string* bytes = pieces_.find(*piece)) return std::pair(*piece, std::string_view(*bytes));
    return Error{ErrorKind::system, "a piece of a file is named that has not come"};
  }

  bool refuse(const Error& why) {
    wrong_ = why;
    return false;
  }

  bool take(int stream, std::string_view bytes) {
    const int agent = stream / 2;
    // A process that has left the agent may write yet.
    if (over_[static_cast<std::size_t>(agent)] != 0) return true;
    up_.send(branch_frames(stream % 2 == 0 ? What::out : What::err, agent, bytes));
    if (up_.unsent() <= kMostUpwards) return true;
    paused_.insert(stream);
    return false;
  }

  void complained(int agent, const std::string& why) { up_.send(branch_frames(What::complained, agent, why)); }

  void ended(int agent, int status) {
    agents_.drain(agent);
    // Those that this host reaches are not lost with its own agent.
    if (agent == 0 && status < 0) {
      complained(agent, "the agent died of " + signal_name(-status));
      status = kRelayDied;
    }
    up_.send(branch_frames(What::ended, agent, std::to_string(status)));
    over_[static_cast<std::size_t>(agent)] = 1;
    --left_;
    if (left_ == 0 && up_.unsent() == 0) done_ = true;
  }

  void drained() {
    if (left_ == 0) done_ = true;
    for (const int stream : std::exchange(paused_, {})) agents_.resume(stream);
  }

  asio::io_context io_;
  std::vector<char> over_;  // by agent
  std::size_t left_;
  BranchDecoder frames_;
  asio::posix::stream_descriptor input_;
  PipeWriter up_;
  BranchedAgents agents_;
  LastPieces pieces_{};
  std::set<int> paused_{};  // streams
  std::optional<Error> wrong_{};
  bool done_ = false;
  std::vector<char> chunk_ = std::vector<char>(std::size_t{128} << 10);
};

}  // namespace

Result<int> run_branch(const BranchPlan& plan, int input, const std::string& version) {
  std::signal(SIGCHLD, SIG_DFL);  // one that is ignored leaves no exit code
  std::signal(SIGPIPE, SIG_IGN);  // whoever has ended says so in another way
  return Branch(plan, input, version, raise_descriptors()).run();
}

}  // namespace dtrain::launcher
