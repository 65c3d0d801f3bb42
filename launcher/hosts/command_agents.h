#pragma once
// Agents that a command on each host starts: ssh, or here the agent itself.
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/hosts/agent_ends.h"
#include "launcher/hosts/host_command.h"
#include "launcher/output/worker_pipes.h"

namespace dtrain::launcher {

struct AgentCommand {
  std::vector<std::string> words;  // a word without a slash is looked up in PATH
  bool dies_with_us = true;        // false: it hears the end of its input
};

// Three descriptors a host. Returns the user's limit, which the commands keep.
rlimit raise_descriptors();

class CommandAgents final : public AgentEnds {
 public:
  // `descriptors`: the limit of each.
  CommandAgents(boost::asio::io_context& io, std::vector<AgentCommand> commands, rlimit descriptors);

  void attach(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  Result<void> start(int agent) override;
  void send(int agent, const std::string& line) override { at(agent).send(line + "\n"); }
  void write(int agent, std::string_view bytes) { at(agent).send(bytes); }
  // What waits for its input yet.
  std::size_t unsent(int agent) { return at(agent).unsent(); }
  void close_input(int agent) { at(agent).close_input(); }
  void drop(int agent) override;
  void resume(int stream) override { pipes_.resume(stream); }
  bool any_runs() const override;
  void drain(int agent) { pipes_.drain(agent); }
  void drain_all() override { pipes_.drain_all(); }
  void close_all() override { pipes_.close_all(); }
  bool all_closed() const override { return pipes_.all_closed(); }

 private:
  HostCommand& at(int agent) { return *commands_[static_cast<std::size_t>(agent)]; }

  std::vector<AgentCommand> spec_;
  rlimit descriptors_;
  Callbacks callbacks_{};
  WorkerPipes pipes_;
  std::vector<std::unique_ptr<HostCommand>> commands_{};
};

}  // namespace dtrain::launcher
