#pragma once
// Who is to blame when a deadline has passed in a group over several hosts. A rank that did not come may itself wait
// for another rank, in this call or in an earlier one, and its own deadline may be later. So the waiting rank asks the
// missing ranks, again and again. A rank that waits answers, and asks at once those that it waits for. A rank that is
// stopped, stuck or busy elsewhere does not answer, and is named. Pure.
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
  // How long a rank waits for an answer: a rank that waits looks around ten times a second (kLookAround).
  static constexpr std::chrono::milliseconds kPatience{500};
  // How long a rank that asks only because it was asked waits for an answer. If the rank that asked it still waits, the
  // next question comes within this time.
  static constexpr std::chrono::milliseconds kHurriedPatience = kPatience * 3 / 2;
  // How long after its deadline a rank asks at most. Ranks that still answer then wait for each other, and the first of
  // them is named.
  static constexpr std::chrono::milliseconds kLongest = 6 * kPatience;

  // `asks`: false if a rank can wait only for what all other ranks wait for too; then nobody is asked.
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
    bool ask = false;  // ask all that are missing, then wait until due(); false: only wait
  };
  // `missing`: at least one.
  Verdict judge(const std::vector<int>& missing, const std::function<bool(int rank)>& has_answered, Time now) {
    if (!asks_ || now >= deadline_ + kLongest) return {missing.front()};
    const bool hurried = now < deadline_;
    // The rank that asked for this one has what it waited for, or is gone: this rank's own deadline counts again.
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
  bool missed_ = false;  // another rank has asked since judge() was due last
};

}  // namespace dtrain
