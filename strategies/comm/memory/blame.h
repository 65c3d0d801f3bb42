#pragma once
// Who is to blame when a deadline has passed in a group over several hosts. A rank that did not come may itself wait
// for another, in this call or in an earlier one, and its own deadline may be later. So it is asked, again and again:
// whoever waits answers, and asks in its turn those that it waits for, at once; whoever is stopped, stuck or busy
// elsewhere does not answer, and is named. Pure.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace dtrain {

class Blame {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // For an answer: a rank that waits looks around ten times a second (kLookAround).
  static constexpr std::chrono::milliseconds kPatience{500};
  // For an answer to a rank that only asks because it is asked: so long that the next question has come if whoever
  // asked still waits.
  static constexpr std::chrono::milliseconds kHurriedPatience = kPatience * 3 / 2;
  // After the deadline. Ranks that still answer then wait for each other, and the first one is named.
  static constexpr std::chrono::milliseconds kLongest = 6 * kPatience;

  // `asks`: false where no rank can wait for anything that all others do not wait for too.
  Blame(Time deadline, bool asks) : deadline_(deadline), due_(deadline), asks_(asks) {}

  // When judge() is due.
  Time due() const { return due_; }
  // Another rank asks for this one.
  void hurry(Time now) {
    missed_ = true;
    if (!asked_) due_ = std::min(due_, now);
  }

  struct Verdict {
    std::optional<int> guilty;
    bool ask = false;  // all that are missing, and wait until due(). Else: only wait
  };
  // `missing`: at least one.
  Verdict judge(const std::vector<int>& missing, const std::function<bool(int rank)>& has_answered, Time now) {
    if (!asks_ || now >= deadline_ + kLongest) return {missing.front()};
    const bool hurried = now < deadline_;
    // Whoever asked for this rank has what it waited for, or is gone: it was no matter of this one's deadline.
    if (hurried && !std::exchange(missed_, false)) {
      asked_ = false;
      due_ = deadline_;
      return {};
    }
    const auto silent = std::find_if_not(missing.begin(), missing.end(), has_answered);
    if (asked_ && silent != missing.end()) return {*silent};
    asked_ = true;
    due_ = now + (hurried ? kHurriedPatience : kPatience);
    return {{}, true};
  }

 private:
  const Time deadline_;
  Time due_;
  const bool asks_;
  bool asked_ = false;
  bool missed_ = false;  // since judge() was due last
};

}  // namespace dtrain
