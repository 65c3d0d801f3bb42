#pragma once
// The host of a job is where its endpoint says: node 0 of a static job; else whoever binds the port first, of those
// that have the endpoint's address. Nobody follows it.
#include <optional>
#include <string>

#include "launcher/host_finder.h"

namespace dtrain::launcher {

class EndpointFinder : public HostFinder {
 public:
  EndpointFinder(const JobSpec& spec, Callbacks callbacks) : spec_(spec), callbacks_(std::move(callbacks)) {}

  Result<void> open() override;
  void find() override;
  std::string endpoint() const override;

 private:
  Result<void> listen();

  const JobSpec& spec_;
  Callbacks callbacks_;
  UniqueFd listener_;       // until it is handed over
  std::uint16_t port_ = 0;  // of it; 0: there was none
};

}  // namespace dtrain::launcher
