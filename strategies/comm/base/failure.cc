// Words for failures; see failure.h.
#include "strategies/comm/base/failure.h"

#include <fmt/format.h>

namespace dtrain {
namespace {

constexpr std::uint32_t kRankBits = 24;
constexpr std::uint32_t kRankMask = (1U << kRankBits) - 1;

// What more there is to say of it.
const char* more(FailureKind kind) {
  return kind == FailureKind::peer_left ? " (its session ended, often after an error of its own: see its output)" : "";
}

}  // namespace

const char* short_phrase(FailureKind kind) {
  switch (kind) {
    case FailureKind::peer_died:
      return "died";
    case FailureKind::peer_left:
      return "left the job";
    case FailureKind::timed_out:
      return "did not arrive in time";
    case FailureKind::mismatched:
      return "made a call that does not fit";
    case FailureKind::aborted:
      return "aborted the group";
  }
  return "failed";
}

std::uint32_t encode(const Failure& failure) {
  return (static_cast<std::uint32_t>(failure.kind) + 1) << kRankBits |
         (static_cast<std::uint32_t>(failure.rank) & kRankMask);
}

Failure decode_failure(std::uint32_t word) {
  return {static_cast<FailureKind>((word >> kRankBits) - 1), static_cast<int>(word & kRankMask)};
}

CollectiveError describe(const Failure& failure, int pid, const std::string& during, const std::string& detail) {
  std::string message = fmt::format("dtrain: {}: rank {} (pid {}) {}{}", during, failure.rank, pid,
                                    short_phrase(failure.kind), more(failure.kind));
  // Of a call that does not fit the detail is the other half of the sentence.
  if (!detail.empty()) message += (failure.kind == FailureKind::mismatched ? ": " : "; ") + detail;
  return {failure.kind, failure.rank, message};
}

}  // namespace dtrain
