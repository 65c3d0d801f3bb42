#include "data/process/progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::data {

std::string progress_text(const Progress& now) {
  if (now.done >= now.all) return {};
  const std::string pass = now.pass < now.passes ? fmt::format(" (pass {} of {})", now.pass + 1, now.passes) : "";
  return fmt::format("{}{}: {} % ", now.doing, pass, now.done * 100 / now.all);
}

std::optional<Progress> PhaseWatch::look(const ResultsOf& results) {
  std::optional<Progress> seen;
  for (std::size_t at = at_; at < phases_.size(); ++at) {
    const auto done = results(phases_[at].name);
    if (!done) break;
    at_ = at;
    seen =
        Progress{phases_[at].pass, passes_, phases_[at].doing, std::min(*done, phases_[at].parts), phases_[at].parts};
  }
  return seen;
}

}  // namespace dtrain::data
