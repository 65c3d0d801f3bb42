#include "launcher/agent/trainer_posts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain::launcher {
namespace {

constexpr auto kLastPost = std::chrono::seconds(5);

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

// What has become of the job; none: of this node alone, and the others may go on.
std::optional<std::pair<const char*, std::string>> end_of(const Outcome& outcome, bool several) {
  constexpr std::pair<const char*, const char*> kSucceeded{"succeeded", ""};
  if (several) {
    if (!outcome.verdict) return std::nullopt;
    if (outcome.verdict->how == JobEnd::success) return kSucceeded;
    return std::pair(outcome.verdict->how == JobEnd::stopped ? "stopped" : "failed", outcome.verdict->reason);
  }
  if (outcome.cause == StopCause::success) return kSucceeded;
  return std::pair(outcome.cause == StopCause::stop_signal ? "stopped" : "failed", outcome.reason);
}

}  // namespace

TrainerPosts::TrainerPosts(boost::asio::io_context& io, Parts parts) : parts_(parts) {
  notes_->more = [this, &io] { boost::asio::post(io, [this] { say_notes(); }); };
}

TrainerPosts::~TrainerPosts() {
  const std::lock_guard lock(notes_->mutex);
  notes_->more = {};
}

JobMoment TrainerPosts::moment(std::string state) const {
  const Assignment& place = *parts_.workers.place();
  return {std::move(state), "", parts_.core.restarts(), place.nnodes, place.world_size};
}

void TrainerPosts::stepped() {
  if (!parts_.spec.status_server || parts_.core.state() == GroupState::finished) return;
  const auto& place = parts_.workers.place();
  // A round that could not begin has a place without an address.
  const bool leads = place && place->base_rank == 0 && !place->master_addr.empty();
  if (std::exchange(leads_, leads) != leads) {
    poster_.reset();
    drop_file();
    if (leads) start_poster();
  }
  if (!leads) return;
  JobMoment now = moment(state_of(parts_.core.state()));
  const std::string& file = parts_.workers.row(0).paths.progress;
  if (now == told_ && file == file_) return;
  if (file != file_) drop_file();
  told_ = now;
  file_ = file;
  if (poster_) poster_->job(std::move(now), file);
}

void TrainerPosts::close(const std::optional<Outcome>& outcome) {
  const auto end = outcome && leads_ ? end_of(*outcome, parts_.spec.nodes.several()) : std::nullopt;
  if (!end) poster_.reset();
  if (poster_) {
    JobMoment last = moment(end->first);
    last.why = end->second;
    poster_->finish(std::move(last), file_.empty() ? std::nullopt : read_progress_file(file_));
  }
  if (!file_.empty()) ::unlink(file_.c_str());
}

void TrainerPosts::wait() {
  const bool late = poster_ && !poster_->wait(kLastPost);
  drop_file();  // a worker of a job that was cut off may have written it again
  say_notes();
  if (late)
    parts_.say(fmt::format("the end of the job was not posted: {}: no answer within {} s",
                           parts_.spec.status_server->url, kLastPost.count()));
  poster_.reset();
}

void TrainerPosts::drop_file() {
  if (!file_.empty()) ::unlink(file_.c_str());
  file_.clear();
}

void TrainerPosts::start_poster() {
  told_ = {};
  auto poster = StatusPoster::start(*parts_.spec.status_server, [notes = notes_](const std::string& line) {
    const std::lock_guard lock(notes->mutex);
    notes->lines.push_back(line);
    if (notes->more) notes->more();
  });
  if (poster)
    poster_ = std::move(*poster);
  else
    parts_.say("the progress of the job is not posted: " + poster.error().message);
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
