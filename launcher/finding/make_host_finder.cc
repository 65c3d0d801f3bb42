#include "launcher/finding/make_host_finder.h"

#include <utility>

#include "launcher/finding/endpoint_finder.h"
#include "launcher/finding/etcd_finder.h"
#include "launcher/finding/succession_finder.h"

namespace dtrain::launcher {

std::unique_ptr<HostFinder> make_host_finder(boost::asio::io_context& io, const JobSpec& spec,
                                             const std::string& agent_id, HostFinder::Answers answers,
                                             HostFollower::Callbacks follows, const Say& say) {
  if (spec.nodes.etcd)
    return std::make_unique<EtcdFinder>(io, spec, agent_id, std::move(answers), std::move(follows), say);
  if (SuccessionFinder::wanted(spec.nodes))
    return std::make_unique<SuccessionFinder>(io, spec, agent_id, std::move(answers), std::move(follows), say);
  return std::make_unique<EndpointFinder>(spec, std::move(answers), say);
}

}  // namespace dtrain::launcher
