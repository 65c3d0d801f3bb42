#pragma once
// Agents that an engine has started on its nodes. Each comes by a relay (relay.h), over a link that has proved that it
// knows the secret of this submission.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/agent_ends.h"
#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/agent_link/relay_link.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class LinkedAgents final : public AgentEnds {
 public:
  struct Options {
    UniqueFd listener;
    LinkCredential credential;
    std::string job;  // the links' name
    int most = 1;     // agents, in the whole life of the job
    std::function<void(const std::string& line)> log;
  };
  LinkedAgents(boost::asio::io_context& io, Options options);
  ~LinkedAgents() override;

  void attach(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  // Whatever the agent has said until then has waited.
  Result<void> start(int agent) override;
  void send(int agent, const std::string& line) override;
  void drop(int agent) override;
  void vacate(int agent) override {
    if (on_vacant) on_vacant(agent);
  }
  void resume(int stream) override;
  bool any_runs() const override;
  // They say that they have ended after all that they have said.
  void drain_all() override {}
  void close_all() override {}
  bool all_closed() const override { return true; }

  std::function<void(int agent)> on_vacant;

  // By the engine: there is no such agent, or no more.
  void lost(int agent, const std::string& why);

 private:
  struct Agent {
    std::shared_ptr<RelayLink> link{};
    bool expected = false, ended = false;
    std::optional<std::string> lost{};  // why
    bool paused[2] = {false, false};
    std::unique_ptr<boost::asio::steady_timer> grace{};
  };
  void adopt(LinkSocket socket, const std::string& received);
  bool heard(int agent, const RelayFrame& frame);
  void ended(int agent, int status);
  void ended_after(std::chrono::milliseconds time, int agent, int status, const std::string& why);
  Agent& at(int agent);

  boost::asio::io_context& io_;
  Callbacks callbacks_{};
  std::size_t most_;
  std::vector<Agent> agents_{};  // that have been heard of
  std::function<void(const std::string&)> log_;
  OuterListener listener_;
};

}  // namespace dtrain::launcher
