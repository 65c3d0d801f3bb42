#pragma once
// Tells the user what a node waits for: once when that changes, and again every ten seconds while a time limit runs. On
// the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/base/clock.h"
#include "rendezvous/base/say.h"

namespace dtrain::launcher {

class WaitingLine {
 public:
  WaitingLine(boost::asio::io_context& io, Say show) : show_(std::move(show)), timer_(io) {}

  void set(const std::string& text, std::optional<MonoTime> until);
  // The node waits no more.
  void clear();
  // Nothing is shown any more.
  void stop();
  // What the node waits for. Empty: nothing.
  const std::string& text() const { return text_; }

 private:
  void show();

  const Say show_;
  boost::asio::steady_timer timer_;
  std::optional<MonoTime> until_;
  std::string text_;
};

}  // namespace dtrain::launcher
