#include "data/node/name_claim.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

namespace dtrain::data {
namespace {

struct ClaimedNames {
  std::mutex mutex;
  std::set<std::string> names;
};

// Never destroyed, because a loader may be at the program's end.
ClaimedNames& claimed_names() {
  static auto& claimed = *new ClaimedNames;
  return claimed;
}

}  // namespace

NameClaim::NameClaim(const std::string& text) {
  ClaimedNames& claimed = claimed_names();
  const std::lock_guard lock(claimed.mutex);
  for (int number = 0; name_.empty(); ++number) {
    const auto [name, is_new] = claimed.names.insert(fmt::format("{}\n{}", text, number));
    if (is_new) name_ = *name;
  }
}

NameClaim::~NameClaim() {
  ClaimedNames& claimed = claimed_names();
  const std::lock_guard lock(claimed.mutex);
  claimed.names.erase(name_);
}

}  // namespace dtrain::data
