#include "launcher/report/job_lines.h"

#include <fmt/format.h>

#include "launcher/base/readable.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {

namespace {

std::string logs_text(const JobSpec& spec, const std::string& log_folder) {
  const bool has_streams = spec.tee.any() || spec.redirects.any();
  return log_folder.empty() || !has_streams ? "" : ", logs in " + log_folder;
}

}  // namespace

std::string start_line(const JobSpec& spec, const std::string& log_folder) {
  return fmt::format("{} of {}{}", counted(spec.nproc_per_node, "worker"), spec.program, logs_text(spec, log_folder));
}

std::string success_line(const JobSpec& spec, const std::string& log_folder, int restarts,
                         std::chrono::nanoseconds took) {
  return fmt::format("done: {}{}, {}{}{}", counted(spec.nproc_per_node, "worker"),
                     spec.nodes.several() ? " on this node" : "", readable_duration(took),
                     restarts == 0 ? "" : ", " + counted(restarts, "restart"), logs_text(spec, log_folder));
}

}  // namespace dtrain::launcher
