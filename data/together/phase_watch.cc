#include "data/together/phase_watch.h"

#include <algorithm>

namespace dtrain::data {

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
