#pragma once
// The endpoint names the first host of a job. When a host is lost, a majority of the last round's nodes chooses another
// (rendezvous/election/succession_core.h). For that each agent listens at its own address that leads to the host, and
// says so when it joins.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/finding/endpoint_finder.h"
#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/agent_link/seek_link.h"
#include "rendezvous/election/succession_core.h"

namespace dtrain::launcher {

class SuccessionFinder : public HostFinder, public HostFollower {
 public:
  // Whether the job's nodes may choose another host.
  static bool wanted(const NodesSpec& nodes);

  // `spec` and `say` outlive this.
  SuccessionFinder(boost::asio::io_context& io, const JobSpec& spec, const std::string& agent_id, Answers answers,
                   Callbacks callbacks, const Say& say);
  ~SuccessionFinder() override { close(true); }

  Result<void> open() override { return endpoint_.open(); }
  void find() override;
  std::string endpoint() const override { return endpoint_.endpoint(); }
  HostFollower* follower() override { return this; }

  void hear(const HostNews& news) override;
  void complete(const std::string& own_address, NodeInfo& node) override;
  bool survives_host() const override { return core_.can_follow(); }
  std::string missing() const override { return core_.missing(); }
  std::optional<MonoTime> fenced_at() const override { return core_.fenced_at(); }
  void close(bool as_killed) override;

 private:
  Answers endpoint_answers();
  void first_host(Here here);
  void feed(const SuccessionEvent& event);
  void feed_soon(const SuccessionEvent& event);
  void perform(const SuccessionAction& action);
  bool nobody_left() const;
  void seek(const std::vector<Candidate>& candidates);
  void here(const succession_action::Here& here);
  void succeed(Here& here);
  void listen(const std::string& address);
  void serve_seekers();
  std::optional<msg::HostAt> host_at() const;
  void arm();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const Answers answers_;
  const Callbacks callbacks_;
  const Say& say_;
  const VoterId self_;
  EndpointFinder endpoint_;
  SuccessionCore core_;
  boost::asio::steady_timer timer_;
  UniqueFd listener_;  // kept: as the host, this agent has another descriptor of the same socket
  std::string address_;
  std::uint16_t port_ = 0;
  std::unique_ptr<SeekDesk> desk_;  // while this agent is not the host
  std::unique_ptr<OuterListener> outer_;
  std::map<std::pair<std::string, int>, std::unique_ptr<SeekLink>> links_;
  std::map<VoterId, SeekLink*> by_voter_;
  std::function<void()> go_;  // the round may open
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace dtrain::launcher
