#include "launcher/progress/post_core.h"

#include <algorithm>
#include <utility>

namespace dtrain::launcher {

void PostCore::job(JobMoment moment) {
  if (finished_ || moment == moment_) return;
  moment_ = std::move(moment);
  news_ = progress_ || moment_.state == "running";
}

void PostCore::progress(const Result<Progress>& told, MonoTime now) {
  if (finished_) return;
  if (!told) {
    const std::string why = told.error().message;
    if (std::exchange(unreadable_, why) != why) note_ = "the file that tells of the progress cannot be read: " + why;
    return;
  }
  pace_.saw(*told, now);
  if (progress_ && *progress_ == *told) return;
  progress_ = *told;
  news_ = true;
}

void PostCore::posted(const std::optional<std::string>& why_not, MonoTime now) {
  under_way_ = false;
  if (!why_not) {
    pause_ = kEvery;
    failing_ = false;
    return;
  }
  // A beginning that comes late would take the place of what the program has posted itself.
  news_ = finished_ ? !last_taken_ : progress_ || moment_.state == "running";
  if (finished_)
    next_.reset();
  else
    next_ = now + pause_;
  pause_ = std::min<Duration>(2 * pause_, kLongestPause);
  if (!std::exchange(failing_, true)) note_ = "the progress of the job was not posted: " + *why_not;
}

void PostCore::finish(JobMoment last) {
  if (std::exchange(finished_, true)) return;
  moment_ = std::move(last);
  news_ = progress_ || moment_.state != "succeeded";
  next_.reset();
}

std::optional<std::string> PostCore::take_post(MonoTime now, const std::string& wall_time) {
  if (!news_ || under_way_ || (next_ && now < *next_)) return std::nullopt;
  news_ = false;
  under_way_ = true;
  last_taken_ = finished_;
  next_ = now + kEvery;
  return trainer_status(moment_, progress_ ? &*progress_ : nullptr, pace_.seconds_left(), wall_time);
}

std::optional<MonoTime> PostCore::due() const {
  if (!news_ || under_way_) return std::nullopt;
  return next_.value_or(MonoTime{});
}

}  // namespace dtrain::launcher
