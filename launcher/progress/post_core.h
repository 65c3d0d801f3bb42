#pragma once
// When the status of a job is posted, and what: a function of what has happened and of the time. Pure; status_poster.h
// carries it out.
//
// One post is under way at a time, and they begin at least kEvery apart: the server may serve many jobs. What has
// changed meanwhile is in the next one. A post that has failed is tried again, less and less often. A program that
// tells dtrain nothing may post its own progress to the same place (Transformers does), and each post takes the place
// of the one before: then dtrain posts no more than the beginning of a round, and an end that is no success.
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/progress/trainer_status.h"

namespace dtrain::launcher {

class PostCore {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(5);
  static constexpr Duration kLongestPause = std::chrono::seconds(60);

  // The agent of rank 0 has this to say. The end of the job is said by finish().
  void job(JobMoment moment);
  // The program has told of its progress; an error: why that cannot be read.
  void progress(const Result<Progress>& told, MonoTime now);
  // What take_post() has given was taken by the server, or was not, and why.
  void posted(const std::optional<std::string>& why_not, MonoTime now);
  // The job is over: what is left to say is said at once, and once.
  void finish(JobMoment last);

  // The body of a post that is to be sent now.
  std::optional<std::string> take_post(MonoTime now, const std::string& wall_time);
  // Nothing is under way, and nothing is to be sent.
  bool idle() const { return !under_way_ && !news_; }
  // When take_post() may give something, if nothing happens before; none: not before something happens.
  std::optional<MonoTime> due() const;
  // A line for the user, once.
  std::optional<std::string> take_note() { return std::exchange(note_, std::nullopt); }

 private:
  JobMoment moment_{};
  std::optional<Progress> progress_{};
  StepPace pace_{};
  std::string unreadable_{};  // what was said of a progress file
  bool news_ = false, under_way_ = false, failing_ = false;
  bool finished_ = false, last_taken_ = false;
  Duration pause_ = kEvery;
  std::optional<MonoTime> next_{};  // not before that
  std::optional<std::string> note_{};
};

}  // namespace dtrain::launcher
