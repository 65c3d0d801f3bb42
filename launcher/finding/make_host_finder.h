#pragma once
// Which of the host finders a job has.
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "launcher/finding/host_finder.h"
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// `spec` and `say` outlive the finder.
std::unique_ptr<HostFinder> make_host_finder(boost::asio::io_context& io, const JobSpec& spec,
                                             const std::string& agent_id, HostFinder::Answers answers,
                                             HostFollower::Callbacks follows, const Say& say);

}  // namespace dtrain::launcher
