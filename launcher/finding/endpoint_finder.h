#pragma once
// The endpoint names the host of a job: node 0 of a static job; else the first agent to bind the port, of those that
// have the endpoint's address. Nobody takes the place of that host.
#include <optional>
#include <string>
#include <utility>

#include "launcher/finding/host_finder.h"

namespace dtrain::launcher {

// Ends a line about nodes that have not come: no other host can reach an endpoint on loopback. Empty across hosts.
std::string only_here(const NodesSpec& nodes);

class EndpointFinder : public HostFinder {
 public:
  // `spec` and `say` outlive this.
  EndpointFinder(const JobSpec& spec, Answers answers, const Say& say)
      : spec_(spec), answers_(std::move(answers)), say_(say) {}

  Result<void> open() override;
  void find() override;
  std::string endpoint() const override;
  HostFollower* follower() override { return nullptr; }

 private:
  Result<void> listen();

  const JobSpec& spec_;
  const Answers answers_;
  const Say& say_;
  UniqueFd listener_;       // until it is handed over
  std::uint16_t port_ = 0;  // of the listener; 0: this agent never had one
};

}  // namespace dtrain::launcher
