#include "launcher/job/root_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace dtrain::launcher {
namespace {

// Orders fates by the time of their cause; at the same time the lower rank comes first.
bool before(const Fate& a, const Fate& b) { return std::pair(a.told.since, a.rank) < std::pair(b.told.since, b.rank); }

template <class Wanted>
std::optional<std::size_t> first_of(std::span<const Fate> fates, const Wanted& wanted) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (wanted(fates[i]) && (!first || before(fates[i], fates[*first]))) first = i;
  }
  return first;
}

std::optional<std::size_t> with_rank(std::span<const Fate> fates, int rank) {
  return first_of(fates, [rank](const Fate& fate) { return fate.rank == rank; });
}

// The last worker that had ended with 0 by then.
std::optional<std::size_t> last_that_left(std::span<const Fate> fates, MonoTime until) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Fate& fate = fates[i];
    const bool left = fate.status && fate.status->success() && !fate.told.stopped && fate.told.since <= until;
    if (left && (!last || before(fates[*last], fate))) last = i;
  }
  return last;
}

// The worker that `from` points to.
std::optional<std::size_t> blamed_by(std::span<const Fate> fates, const Fate& from) {
  const Blame& blame = from.told.blame;
  if (blame.rank >= 0) return with_rank(fates, blame.rank);
  if (blame.rank != Blame::kSomebody) return std::nullopt;
  const auto by_itself = first_of(
      fates, [](const Fate& fate) { return fate.failed_itself() && fate.told.blame.rank != Blame::kSomebody; });
  return by_itself ? by_itself : last_that_left(fates, from.told.since);
}

}  // namespace

std::optional<RootCause> root_cause(std::span<const Fate> fates, const Blame& accused) {
  const auto failed = first_of(fates, [](const Fate& fate) { return fate.failed_itself(); });
  const auto named = accused.rank >= 0 ? with_rank(fates, accused.rank) : std::nullopt;
  if (!failed && !named) return std::nullopt;
  RootCause cause;
  const std::size_t first = named ? *named : *failed;
  cause.at = first;
  if (named) cause.accusation = accused;
  std::vector<bool> seen(fates.size());
  for (;;) {
    seen[cause.at] = true;
    const Fate& here = fates[cause.at];
    const auto next = blamed_by(fates, here);
    if (!next) {
      cause.blame = here.told.blame;
      break;
    }
    if (seen[*next]) {  // each blames the other
      cause.at = first;
      cause.accusation = named ? accused : Blame{};
      break;
    }
    cause.accusation = here.told.blame;
    cause.at = *next;
  }
  cause.failed = fates[cause.at].failed_itself() || !failed ? cause.at : *failed;
  return cause;
}

int last_to_leave(std::span<const Fate> fates) {
  const auto last = last_that_left(fates, MonoTime::max());
  return last ? fates[*last].rank : Blame::kNobody;
}

std::string describe_cause(const Fate& fate, const Blame& accusation) {
  if (fate.failed_itself()) return describe(*fate.status);
  if (fate.status && fate.status->success() && !fate.told.stopped)
    return "ended with code 0 while others were in a collective";
  const std::string what = accusation.what.empty() ? "the others could not go on without it" : accusation.what;
  return fate.status ? fmt::format("{}; stopped by dtrain ({})", what, describe(*fate.status)) : what;
}

}  // namespace dtrain::launcher
