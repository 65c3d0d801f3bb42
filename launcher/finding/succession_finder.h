#pragma once
// The host of a job is where its endpoint says, until it is lost; then a majority of the last round's nodes choose
// another (rendezvous/succession_core.h). For that each agent listens at the address of its own that leads to the host,
// and says so when it joins.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/endpoint_finder.h"
#include "rendezvous/outer_listener.h"
#include "rendezvous/seek_link.h"
#include "rendezvous/succession_core.h"

namespace dtrain::launcher {

class SuccessionFinder : public HostFinder {
 public:
  // Whether the job's nodes may choose another host.
  static bool wanted(const NodesSpec& nodes);

  SuccessionFinder(boost::asio::io_context& io, const JobSpec& spec, const std::string& agent_id, Callbacks callbacks);
  ~SuccessionFinder() override { close(true); }

  Result<void> open() override { return endpoint_.open(); }
  void find() override;
  void lost(std::uint64_t term, MonoTime stamped) override;
  void joined(const There& host) override;
  void settled(int round) override { feed(succession_event::Settled{round}); }
  void opened(const msg::Open& open) override;
  void leaves() override { feed(succession_event::Leaves{}); }
  void complete(const std::string& own_address, NodeInfo& node) override;
  bool survives_host() const override { return core_.can_follow(); }
  std::optional<MonoTime> fenced_at() const override { return core_.fenced_at(); }
  std::string missing() const override { return core_.missing(); }
  std::string endpoint() const override { return endpoint_.endpoint(); }
  void close(bool as_killed) override;

 private:
  Callbacks endpoint_callbacks();
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
  const Callbacks callbacks_;
  const VoterId self_;
  EndpointFinder endpoint_;
  SteadyClock clock_;
  SuccessionCore core_;
  boost::asio::steady_timer timer_;
  UniqueFd listener_;  // kept: whoever is the host has another descriptor of it
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
