#include "launcher/progress/status_poster.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "launcher/base/small_file.h"
#include "launcher/base/wall_time.h"
#include "rendezvous/base/all_signals_blocked.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/http/https_post.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr auto kPostLimit = std::chrono::seconds(10);
constexpr auto kLookAtFile = std::chrono::seconds(1);
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

class StatusPoster::Loop {
 public:
  Loop(StatusServer server, HttpsPlace place, Say note)
      : server_(std::move(server)), place_(std::move(place)), note_(std::move(note)) {}

  void run() {
    try {
      io_.run();
    } catch (const std::exception& e) {  // memory or descriptors ran out
      note_(printable(std::string("the progress of the job is not posted any more: ") + e.what(), 1000));
    }
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  template <class Work>
  void post(Work work) {
    asio::post(io_, std::move(work));
  }
  void stop() { io_.stop(); }
  bool wait(Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return over_; });
  }

  // ---- on the thread
  void job(JobMoment moment, std::string file) {
    core_.job(std::move(moment));
    if (file != file_) seen_ = looked_ = {};
    file_ = std::move(file);
    look_again();
    step();
  }
  void finish(JobMoment last, const std::optional<Result<Progress>>& progress) {
    if (progress) core_.progress(*progress, SteadyClock::now());
    core_.finish(std::move(last));
    finishing_ = true;
    look_timer_.cancel();
    step();
  }

 private:
  struct FileState {
    std::int64_t seconds = 0, nanoseconds = 0, bytes = -1;
    bool operator==(const FileState&) const = default;
  };

  // The program writes it in place, so a part of it may be there: what is not whole counts if it stays so.
  void look_at_file() {
    struct stat facts {};
    if (file_.empty() || ::stat(file_.c_str(), &facts) != 0) return;
    const FileState now{facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size};
    if (now == seen_) return;
    const auto told = read_progress_file(file_);
    const bool stays = std::exchange(looked_, now) == now;
    if (!told || (!told->ok() && !stays)) return;
    seen_ = now;
    core_.progress(*told, SteadyClock::now());
  }

  void look_again() {
    if (finishing_) return;
    look_timer_.expires_after(kLookAtFile);
    look_timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || finishing_) return;
      look_at_file();
      step();
      look_again();
    });
  }

  void step() {
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
  void send(std::string body) {
    auto token = read_token(server_.token_file);
    if (!token) return asio::post(io_, [this, error = token.error()] { over(error); });
    post_.start({place_, server_.ca_file, std::move(*token), std::move(body)}, kPostLimit,
                [this](const Result<void>& result) { over(result); });
  }

  void over(const Result<void>& result) {
    core_.posted(result ? std::nullopt : std::optional(server_.url + ": " + result.error().message),
                 SteadyClock::now());
    step();
  }

  const StatusServer server_;
  const HttpsPlace place_;
  const Say note_;
  asio::io_context io_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  PostCore core_{};
  std::string file_{};
  FileState seen_{}, looked_{};
  asio::steady_timer look_timer_{io_};
  asio::steady_timer due_timer_{io_};
  HttpsPost post_{io_};
  bool finishing_ = false;

  std::mutex mutex_{};
  std::condition_variable changed_{};
  bool over_ = false;
};

Result<std::unique_ptr<StatusPoster>> StatusPoster::start(StatusServer server, Say note) {
  auto place = parse_https_url(server.url);
  if (!place) return place.error().in("KUBEFLOW_TRAINER_SERVER_URL");
  try {
    auto loop = std::make_shared<Loop>(std::move(server), std::move(*place), std::move(note));
    const AllSignalsBlocked blocked;
    std::thread([loop] { loop->run(); }).detach();
    return std::unique_ptr<StatusPoster>(new StatusPoster(std::move(loop)));
  } catch (const std::exception& e) {
    return Error{ErrorKind::system, e.what()};
  }
}

StatusPoster::~StatusPoster() { loop_->stop(); }

void StatusPoster::job(JobMoment moment, std::string progress_file) {
  loop_->post([loop = loop_.get(), moment = std::move(moment), file = std::move(progress_file)]() mutable {
    loop->job(std::move(moment), std::move(file));
  });
}

void StatusPoster::finish(JobMoment last, std::optional<Result<Progress>> progress) {
  loop_->post([loop = loop_.get(), last = std::move(last), progress = std::move(progress)]() mutable {
    loop->finish(std::move(last), progress);
  });
}

bool StatusPoster::wait(Duration patience) { return loop_->wait(patience); }

std::optional<Result<Progress>> read_progress_file(const std::string& path) {
  const auto text = read_found_file(path, kLongestProgressFile);
  if (!text && text.error().errno_value == ENOENT) return std::nullopt;
  if (text && text->empty()) return std::nullopt;
  return text ? parse_progress(*text) : Result<Progress>(text.error());
}

}  // namespace dtrain::launcher
