#include "launcher/agent/trainer_posts.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain::launcher {
namespace {

constexpr auto kLastPost = std::chrono::seconds(2);

const char* state_of(GroupState state) {
  switch (state) {
    case GroupState::running:
      return "running";
    case GroupState::starting:
    case GroupState::waiting:
      return "waiting";
    default:
      return "stopping";
  }
}

const char* state_of(StopCause cause) {
  if (cause == StopCause::success) return "succeeded";
  return cause == StopCause::stop_signal ? "stopped" : "failed";
}

}  // namespace

JobMoment TrainerPosts::moment(std::string state) const {
  const Assignment& place = *parts_.workers.place();
  return {std::move(state), "", parts_.core.restarts(), place.nnodes, place.world_size};
}

void TrainerPosts::stepped() {
  if (!parts_.spec.status_server) return;
  const auto& place = parts_.workers.place();
  if (!place || place->base_rank != 0) return poster_.reset();
  if (!poster_) poster_ = new_poster();
  JobMoment now = moment(state_of(parts_.core.state()));
  const std::string& file = parts_.workers.row(0).paths.progress;
  if (now == told_ && file == file_) return;
  told_ = now;
  file_ = file;
  poster_->job(std::move(now), file);
}

void TrainerPosts::close(const std::optional<Outcome>& outcome) {
  if (poster_ && outcome) {
    JobMoment last = moment(state_of(outcome->cause));
    if (outcome->cause != StopCause::success) last.why = outcome->reason;
    poster_->finish(std::move(last), kLastPost);
  }
  poster_.reset();
  say_notes();
}

std::unique_ptr<StatusPoster> TrainerPosts::new_poster() {
  told_ = {};
  return std::make_unique<StatusPoster>(*parts_.spec.status_server, [this, notes = notes_](const std::string& line) {
    {
      const std::lock_guard lock(notes->mutex);
      notes->lines.push_back(line);
    }
    boost::asio::post(io_, [this] { say_notes(); });
  });
}

void TrainerPosts::say_notes() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(notes_->mutex);
    lines.swap(notes_->lines);
  }
  for (const std::string& line : lines) parts_.say(line);
}

}  // namespace dtrain::launcher
