#pragma once
// The inputs and outputs of a job's agents, as the process sees them that has submitted the job.
#include <functional>
#include <string>
#include <string_view>

#include "launcher/engine_wire/ship_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Agents are numbered as the hosts of the job. stream = 2 * agent + (0 for stdout, 1 for stderr)
class AgentEnds {
 public:
  struct Callbacks {
    // Bytes of a stream; false: take no more from it until resume().
    std::function<bool(int stream, std::string_view bytes)> data;
    std::function<void(int stream)> end;
    // Once: its exit code, or minus the signal that has killed it.
    std::function<void(int agent, int status)> ended;
    // An agent ends or is lost: why, as far as that is known. Before `ended`.
    std::function<void(int agent, const std::string& why)> complained;
  };

  AgentEnds() = default;
  virtual ~AgentEnds() = default;
  AgentEnds(const AgentEnds&) = delete;
  AgentEnds& operator=(const AgentEnds&) = delete;

  // Before anything else. No callback is called from within another call but drain_all() and close_all().
  virtual void attach(Callbacks callbacks) = 0;
  virtual Result<void> start(int agent) = 0;
  virtual void send(int agent, const std::string& line) = 0;
  // A piece of the job's files, which the agent has asked for.
  virtual void serve(int agent, const ShipPiece& piece, const std::string& bytes) {
    send(agent, ship_piece_line(piece) + "\n" + bytes);
  }
  // Without a word, and at once.
  virtual void drop(int agent) = 0;
  // An engine may start another agent in place of this one.
  virtual void vacate(int /*agent*/) {}
  virtual void resume(int stream) = 0;
  virtual bool any_runs() const = 0;

  // What has been said and not been read yet, is read, paused or not.
  virtual void drain_all() = 0;
  virtual void close_all() = 0;
  virtual bool all_closed() const = 0;
};

}  // namespace dtrain::launcher
