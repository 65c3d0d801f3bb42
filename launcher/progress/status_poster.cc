#include "launcher/progress/status_poster.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <system_error>

#include "launcher/base/small_file.h"
#include "launcher/base/wall_time.h"
#include "rendezvous/base/all_signals_blocked.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr auto kPostLimit = std::chrono::seconds(10);  // of a post
constexpr auto kLookAtFile = std::chrono::seconds(1);  // at the file
constexpr std::size_t kLongestToken = 64 * 1024;

Result<std::string> read_token(const std::string& path) {
  if (path.empty()) return std::string();
  auto text = read_regular_file(path, kLongestToken);
  if (!text) return Error{ErrorKind::system, fmt::format("{}: {}", path, text.error().message)};
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r' || text->back() == ' ')) text->pop_back();
  for (const char c : *text)
    if (c <= ' ' || c >= 0x7f) return Error{ErrorKind::system, path + " has no token in it"};
  return text;
}

}  // namespace

StatusPoster::StatusPoster(StatusServer server, Say note) : server_(std::move(server)), note_(std::move(note)) {
  auto place = parse_https_url(server_.url);
  if (!place) {
    note_("the progress of the job is not posted: KUBEFLOW_TRAINER_SERVER_URL: " + place.error().message);
    return;
  }
  place_ = std::move(*place);
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { io_.run(); });
  } catch (const std::system_error&) {
    note_("the progress of the job is not posted: there is no thread for that");
  }
}

StatusPoster::~StatusPoster() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
  post_.cancel();
  if (!file_.empty()) ::unlink(file_.c_str());
}

void StatusPoster::job(JobMoment moment, std::string progress_file) {
  if (!thread_.joinable()) {
    if (file_ != progress_file) ::unlink(file_.c_str());
    file_ = std::move(progress_file);
    return;
  }
  asio::post(io_, [this, moment = std::move(moment), file = std::move(progress_file)]() mutable {
    core_.job(std::move(moment));
    if (file != file_) {
      drop_file();
      file_ = std::move(file);
    }
    look_again();
    step();
  });
}

void StatusPoster::finish(JobMoment last, Duration patience) {
  if (!thread_.joinable()) return;
  asio::post(io_, [this, last = std::move(last), patience]() mutable {
    drop_file();
    core_.finish(std::move(last));
    finishing_ = true;
    look_timer_.cancel();
    last_timer_.expires_after(patience);
    last_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) io_.stop();
    });
    step();
  });
  thread_.join();
}

// The program writes it in place, so half of it may be there: whoever looks again finds the whole.
void StatusPoster::read_progress() {
  struct stat facts {};
  if (file_.empty() || ::stat(file_.c_str(), &facts) != 0) return;
  const FileState now{facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size};
  if (now == seen_) return;
  const auto text = read_found_file(file_, kLongestProgressFile);
  const bool half = text && (text->empty() || text->find('}') == text->npos);
  if (half) return;
  seen_ = now;
  core_.progress(text ? parse_progress(*text) : Result<Progress>(text.error()), SteadyClock::now());
}

// A folder of logs that nobody asked for goes when it is empty.
void StatusPoster::drop_file() {
  read_progress();
  if (!file_.empty()) ::unlink(file_.c_str());
  file_.clear();
  seen_ = {};
}

void StatusPoster::look_again() {
  if (finishing_) return;
  look_timer_.expires_after(kLookAtFile);
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    read_progress();
    step();
    look_again();
  });
}

void StatusPoster::step() {
  if (auto note = core_.take_note()) note_(printable(*note, 1000));
  if (auto body = core_.take_post(SteadyClock::now(), iso_time(std::chrono::system_clock::now())))
    return send(std::move(*body));
  if (finishing_ && core_.idle()) return io_.stop();
  due_timer_.cancel();
  if (const auto due = core_.due()) {
    due_timer_.expires_at(*due);
    due_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) step();
    });
  }
}

// The files may change while the job runs: Kubernetes puts another token there before the old one ends.
void StatusPoster::send(std::string body) {
  auto token = read_token(server_.token_file);
  if (!token) return asio::post(io_, [this, error = token.error()] { over(error); });
  post_.start({*place_, server_.ca_file, std::move(*token), std::move(body)}, kPostLimit,
              [this](const Result<void>& result) { over(result); });
}

void StatusPoster::over(const Result<void>& result) {
  core_.posted(result ? std::nullopt : std::optional(server_.url + ": " + result.error().message), SteadyClock::now());
  step();
}

}  // namespace dtrain::launcher
