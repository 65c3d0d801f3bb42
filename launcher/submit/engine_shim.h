#pragma once
// The process that knows a cluster (Ray) and starts an agent's relay on each node of it:
// launcher/engine_wire/shim_wire.h.
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <vector>

#include "launcher/engine_wire/agent_wire.h"
#include "launcher/engine_wire/shim_wire.h"
#include "launcher/hosts/host_command.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/worker_pipes.h"

namespace dtrain::launcher {

class EngineShim {
 public:
  struct Callbacks {
    std::function<void(ShimWord)> said;
    // Once. `why`: the last line of its standard error.
    std::function<void(int status, const std::string& why)> ended;
  };
  EngineShim(boost::asio::io_context& io, rlimit descriptors, Callbacks callbacks);

  // It reads its code first, a text of JSON.
  Result<void> start(const std::vector<std::string>& words, const std::string& code, const ShimRequest& request);
  void say(const std::string& line) { command_.send(line + "\n"); }
  // It ends what it has started, and then itself.
  void end() { command_.close_input(); }
  void kill() { command_.kill(); }
  bool runs() const { return command_.is_running(); }

 private:
  bool take(int stream, std::string_view bytes);

  rlimit descriptors_;
  Callbacks callbacks_;
  HostCommand command_;
  WorkerPipes pipes_;
  LineSplitter words_{kLongestAgentLine}, complaints_{};
  std::string last_complaint_{};
};

}  // namespace dtrain::launcher
