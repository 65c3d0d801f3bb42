// See flight.h.
#include "strategies/comm/flight/flight.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "strategies/comm/base/failure.h"
#include "strategies/comm/base/own_process.h"
#include "strategies/comm/base/signals_blocked.h"
#include "strategies/comm/blame/new_file.h"
#include "strategies/comm/flight/flight_clock.h"
#include "strategies/comm/flight/flight_file.h"
#include "strategies/comm/flight/flight_wait.h"
#include "strategies/comm/memory/futex.h"
#include "strategies/comm/memory/shm_segment.h"

namespace dtrain {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank that throws waits for its file and those of the others: when it ends, the launcher ends them. And how
// long the last group waits for the thread. A file system that is stuck holds up neither for longer.
constexpr std::chrono::seconds kPatience{1};

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Of a failure that tells nothing of the ranks' calls, or of none, there is no kind.
FlightCause cause_of(std::uint32_t word, std::uint32_t group) {
  if (word == 0) return {};
  const Failure failure = decode_failure(word);
  if (failure.kind == FailureKind::timed_out) return {"timed_out", group, failure.rank};
  if (failure.kind == FailureKind::mismatched) return {"mismatched", group, failure.rank};
  return {};
}

// Until all of this host's ranks have heeded the failure.
void wait_for_all(SegmentHeader& header, Clock::time_point until) {
  for (auto left = until - Clock::now(); left > Clock::duration::zero(); left = until - Clock::now()) {
    const std::uint32_t seen = header.heeded.load();
    if (seen >= header.members) return;
    futex_wait(header.heeded, seen, left);
  }
}

// One for each process; it is never destroyed, so that threads and signals may come at any time.
class Recorder {
 public:
  static Recorder& instance() {
    static auto* one = new Recorder(read_flight_settings(process_env()));
    return *one;
  }

  bool on() const { return settings_.records > 0 && !in_forked_child(); }
  bool in_forked_child() const { return own_process() != process_; }

  FlightGroup& add(std::string key, int rank, int size) {
    const std::lock_guard lock(mutex_);
    if (settings_.rank < 0) settings_.rank = rank;
    if (settings_.world_size < 0) settings_.world_size = size;
    if (++logs_ == 1) start_thread();
    return ring_.add_group(std::move(key), rank, size);
  }

  void remove(const FlightGroup& group) {
    std::thread last;
    {
      std::unique_lock lock(mutex_);
      ring_.remove_group(group);
      if (--logs_ > 0) return;
      last = std::move(thread_);
      ++generation_;
      ring_flight_bell();
      const auto over = [this, mine = generation_] { return ended_ >= mine; };
      if (!thread_ended_.wait_for(lock, kPatience, over)) return last.detach();
    }
    last.join();
  }

  void watch(const FlightGroup& group, std::shared_ptr<CommGroup> comm) {
    const std::lock_guard lock(mutex_);
    watched_.push_back({&group, std::move(comm)});
    ring_flight_bell();
  }

  void unwatch(const FlightGroup& group) {
    std::shared_ptr<CommGroup> last;  // goes after the lock: that may take long
    const std::lock_guard lock(mutex_);
    const auto found = find(group);
    if (found == watched_.end()) return;
    last = std::move(found->comm);
    watched_.erase(found);
    ring_flight_bell();
  }

  template <class Action>
  auto with_ring(Action action) {
    const std::int64_t now = clock_.ticks();
    const std::lock_guard lock(mutex_);
    return action(ring_, now);
  }

  struct Failed {
    std::shared_ptr<CommGroup> comm;  // null: the group has not failed so that files are written
    bool written = false;
  };
  Failed failed(const FlightGroup& group) {
    const std::lock_guard lock(mutex_);
    const auto found = find(group);
    if (found == watched_.end() || !wanted(cause_of(*found))) return {};
    return {found->comm, found->written};
  }

  const std::string& folder() const { return settings_.folder; }

 private:
  struct Watched {
    const FlightGroup* group;
    std::shared_ptr<CommGroup> comm;
    bool heeded = false;
    bool written = false;
  };

  static FlightCause cause_of(const Watched& one) {
    return dtrain::cause_of(one.comm->header().failure.load(), one.group->id);
  }
  bool wanted(const FlightCause& cause) const { return !settings_.folder.empty() && !cause.kind.empty(); }

  explicit Recorder(FlightSettings settings)
      : settings_(std::move(settings)), ring_(std::max<std::size_t>(settings_.records, 1)) {}

  std::vector<Watched>::iterator find(const FlightGroup& group) {
    return std::find_if(watched_.begin(), watched_.end(), [&](const Watched& one) { return one.group == &group; });
  }

  void start_thread() {
    if (settings_.signal != 0 && !settings_.folder.empty()) catch_flight_signal(settings_.signal);
    static_cast<void>(flight_signal_came());  // nothing was there to write of
    const SignalsBlocked blocked;
    thread_ = std::thread([this, mine = generation_] { run(mine); });
  }

  void run(std::uint64_t mine) {
    ::pthread_setname_np(::pthread_self(), "dtrain-flight");
    if (mine == 0) remove_old();
    while (true) {
      const std::uint32_t seen = flight_bell().load();
      std::vector<const std::atomic<std::uint32_t>*> words;
      std::vector<const FlightGroup*> failed;
      {
        const std::lock_guard lock(mutex_);
        if (generation_ != mine) {
          ended_ = std::max(ended_, mine + 1);
          thread_ended_.notify_all();
          return;
        }
        for (const Watched& one : watched_) {
          if (one.heeded) continue;
          const auto& word = one.comm->header().failure;
          if (word.load() != 0) failed.push_back(one.group);
          words.push_back(&word);
        }
      }
      for (const FlightGroup* group : failed) heed_failure(*group);
      if (flight_signal_came()) answer_signal();
      if (failed.empty()) sleep_on_flight_words(seen, words);
    }
  }

  void heed_failure(const FlightGroup& group) {
    std::unique_lock lock(mutex_);
    auto found = find(group);
    if (found == watched_.end()) return;
    found->heeded = true;
    const std::shared_ptr<CommGroup> comm = found->comm;
    const FlightCause cause = cause_of(*found);
    lock.unlock();
    const std::string error = wanted(cause) ? write(cause) : "";
    if (!error.empty()) say(error);
    lock.lock();
    found = find(group);
    if (found != watched_.end() && found->comm == comm) found->written = error.empty();
    lock.unlock();
    comm->header().heeded.fetch_add(1);
    futex_wake_all(comm->header().heeded);
  }

  // What an earlier job left in the user's own folder is not of this one. A round that failed before is.
  void remove_old() const {
    if (!settings_.make_folder || settings_.round > 0) return;
    std::error_code error;
    ::unlink(path().c_str());
    for (std::filesystem::directory_iterator at(settings_.folder, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with(flight_file_name(settings_.rank) + ".") && name.ends_with(".part"))
        ::unlink(at->path().c_str());
    }
  }

  void answer_signal() {
    const std::string error = write({"signal"});
    say(error.empty() ? fmt::format("wrote {}; dtrain flight {} compares the ranks", path(), settings_.folder) : error);
  }

  std::string path() const { return settings_.folder + "/" + flight_file_name(settings_.rank); }

  // Empty, or what went wrong.
  std::string write(const FlightCause& cause) {
    const std::lock_guard one_at_a_time(files_);
    FlightRing::Snapshot all;
    {
      const std::lock_guard lock(mutex_);
      all = ring_.snapshot();
    }
    const ClockPoint now = clock_.now();
    for (FlightRecord& record : all.records) {
      for (std::int64_t* at : {&record.queued_at, &record.started_at, &record.ended_at})
        if (*at != 0) *at = clock_.to_ns(*at, now);
    }
    if (settings_.make_folder) ::mkdir(settings_.folder.c_str(), 0700);
    const std::string part = fmt::format("{}.{}.part", path(), process_);
    if (replace_file(path(), part, flight_file(all, settings_, {host_name(), process_}, cause, now.ns))) return "";
    return fmt::format("cannot write {}: {}", path(), std::strerror(errno));
  }

  void say(const std::string& line) const {
    const std::string text = fmt::format("dtrain: rank {}: {}\n", settings_.rank, line);
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
  }

  const int process_ = own_process();
  const FlightClock clock_;
  std::mutex files_;  // held while a file is written, by a thread that is stuck too; before mutex_
  std::mutex mutex_;  // of all that follows
  FlightSettings settings_;
  FlightRing ring_;
  std::vector<Watched> watched_;
  int logs_ = 0;
  std::uint64_t generation_ = 0;  // of the thread
  std::uint64_t ended_ = 0;       // threads of earlier ones have
  std::condition_variable thread_ended_;
  std::thread thread_;
};

}  // namespace

FlightLog::FlightLog(std::string key, int rank, int size) {
  Recorder& recorder = Recorder::instance();
  if (recorder.on()) group_ = &recorder.add(std::move(key), rank, size);
}

FlightLog::~FlightLog() {
  Recorder& recorder = Recorder::instance();
  if (group_ == nullptr || recorder.in_forked_child()) return;
  recorder.unwatch(*group_);
  recorder.remove(*group_);
}

void FlightLog::watch(std::shared_ptr<CommGroup> group) {
  if (on() && group) Recorder::instance().watch(*group_, std::move(group));
}

void FlightLog::unwatch() {
  if (on()) Recorder::instance().unwatch(*group_);
}

void FlightLog::name(std::string name) {
  named_ = true;
  if (!on()) return;
  Recorder::instance().with_ring([&](FlightRing&, std::int64_t) { group_->name = std::move(name); });
}

FlightRing::Ticket FlightLog::queued(const FlightCall& call, bool starts) {
  if (!on()) return {};
  return Recorder::instance().with_ring(
      [&](FlightRing& ring, std::int64_t now) { return ring.queued(*group_, call, starts, now); });
}

void FlightLog::started(const FlightRing::Ticket& ticket) {
  if (!on()) return;
  Recorder::instance().with_ring([&](FlightRing& ring, std::int64_t now) { ring.started(ticket, now); });
}

void FlightLog::ended(const FlightRing::Ticket& ticket, bool well) {
  if (!on()) return;
  Recorder::instance().with_ring([&](FlightRing& ring, std::int64_t now) { ring.ended(*group_, ticket, well, now); });
}

std::string FlightLog::settle() {
  if (!on()) return "";
  Recorder& recorder = Recorder::instance();
  const auto group = recorder.failed(*group_).comm;
  if (!group) return "";
  Clock::rep unset = 0;
  settled_by_.compare_exchange_strong(unset, (Clock::now() + kPatience).time_since_epoch().count());
  ring_flight_bell();  // where the thread does not sleep on the failure
  wait_for_all(group->header(), Clock::time_point(Clock::duration(settled_by_.load())));
  if (!recorder.failed(*group_).written) return "";
  return fmt::format("dtrain flight {} says what each rank was doing", recorder.folder());
}

}  // namespace dtrain
