#pragma once
// Who is to blame when a deadline has passed in a group over several hosts. A rank that did not come may itself wait
// for another, in this call or in an earlier one, and its own deadline may be later. So it is asked: whoever waits
// answers, and asks in its turn those that it waits for, at once; whoever is stopped, stuck or busy elsewhere does not
// answer, and is named. Pure.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace dtrain {

class Blame {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // For an answer: a rank that waits looks around ten times a second (kLookAround).
  static constexpr std::chrono::milliseconds kPatience{500};
  // How often ranks that answer are asked again. Then they wait for each other, and the first one is named.
  static constexpr int kRounds = 6;

  // `asks`: false where no rank can wait for anything that all others do not wait for too.
  Blame(Time deadline, bool asks) : due_(deadline), asks_(asks) {}

  // When judge() is due.
  Time due() const { return due_; }
  // Another rank asks this one.
  void hurry(Time now) {
    if (rounds_ == 0) due_ = std::min(due_, now);
  }
  // Of ranks that are missing, at least one, who is to blame. Nobody: ask them all, and wait until due().
  std::optional<int> judge(const std::vector<int>& missing, const std::function<bool(int rank)>& has_answered,
                           Time now) {
    if (!asks_ || rounds_ == kRounds) return missing.front();
    const auto silent = std::find_if_not(missing.begin(), missing.end(), has_answered);
    if (rounds_ > 0 && silent != missing.end()) return *silent;
    ++rounds_;
    due_ = now + kPatience;
    return std::nullopt;
  }

 private:
  Time due_;
  const bool asks_;
  int rounds_ = 0;
};

}  // namespace dtrain
