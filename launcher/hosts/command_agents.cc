#include "launcher/hosts/command_agents.h"

#include <algorithm>
#include <utility>

namespace dtrain::launcher {

rlimit raise_descriptors() {
  rlimit users{};
  ::getrlimit(RLIMIT_NOFILE, &users);
  rlimit raised = users;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return users;
}

CommandAgents::CommandAgents(boost::asio::io_context& io, std::vector<AgentCommand> commands, rlimit descriptors)
    : spec_(std::move(commands)),
      descriptors_(descriptors),
      pipes_(io, static_cast<int>(spec_.size()),
             {[this](int stream, std::string_view bytes) { return callbacks_.data(stream, bytes); },
              [this](int stream) { callbacks_.end(stream); }, [] {}}) {
  for (std::size_t i = 0; i < spec_.size(); ++i)
    commands_.push_back(
        std::make_unique<HostCommand>(io, [this, i](int status) { callbacks_.ended(static_cast<int>(i), status); }));
}

Result<void> CommandAgents::start(int agent) {
  auto output = pipes_.open(agent, Streams::all);
  if (!output) return output.error();
  const AgentCommand& command = spec_[static_cast<std::size_t>(agent)];
  return at(agent).start(command.words, std::move(*output), descriptors_, command.dies_with_us);
}

void CommandAgents::drop(int agent) {
  at(agent).close_input();
  at(agent).kill();
}

bool CommandAgents::any_runs() const {
  return std::any_of(commands_.begin(), commands_.end(), [](const auto& command) { return command->is_running(); });
}

}  // namespace dtrain::launcher
