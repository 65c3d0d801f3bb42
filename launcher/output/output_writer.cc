#include "launcher/output/output_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>

namespace dtrain::launcher {
namespace {

// Small outputs are joined up to this size: one system call for many lines.
constexpr size_t kJoinBytes = 256 * 1024;
constexpr size_t kSparesKept = 8;
// A write to a pipe or terminal blocks until all of it is taken. Slow readers get small slices, so that progress shows.
constexpr size_t kLargestSlice = 64 * 1024;
constexpr size_t kSmallestSlice = 4 * 1024;
constexpr std::chrono::milliseconds kSlowWrite{20};
constexpr int kPollMs = 100;

// The reader is gone for good, as opposed to a disk that may get room again.
bool is_final(int error, int fd) {
  if (error == EIO) return ::isatty(fd) == 1;
  return error == EPIPE || error == EBADF || error == EINVAL || error == ENXIO || error == ECONNRESET;
}

}  // namespace

struct OutputWriter::State {
  struct Target {
    std::string name;
    UniqueFd owned;
    int fd = -1;
    ConsoleTurns* turns = nullptr;
    bool regular_file = false;
    bool given_up = false;
    MonoTime retry_at{};
    int error = 0;  // of the last failing write
    size_t slice = kLargestSlice;
  };

  struct Job {
    int target = 0;
    Block block;
    bool close = false;  // no bytes: close the target
  };

  const size_t queue_bytes;
  const std::function<void()> on_room;

  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable idle;
  std::deque<Job> queue;
  std::vector<Block> spares;
  std::map<int, std::unique_ptr<Target>> targets;  // a Target is the writing thread's while busy
  int next_target = 0;
  bool busy = false;
  bool stop = false;
  Job current;  // being written; only read by others, and only while busy
  std::map<std::tuple<std::string, StreamId, std::string>, WriteLoss> lost;
  std::thread thread;

  std::atomic<size_t> queued{0};
  std::atomic<uint64_t> progress{0};
  std::atomic<size_t> written{0};  // of `current`
  std::atomic<bool> room_wanted{false};
  std::atomic<bool> abandoned{false};

  State(size_t bytes, std::function<void()> room) : queue_bytes(bytes), on_room(std::move(room)) {}

  void run();
  void work_off(std::unique_lock<std::mutex>& lock);
  int write_out(Target& target, const Block& block);
  void count_lost(const Job& job, size_t from, const std::string& reason);
};

OutputWriter::OutputWriter(size_t queue_bytes, std::function<void()> on_room)
    : state_(std::make_shared<State>(queue_bytes, std::move(on_room))) {}

OutputWriter::~OutputWriter() { finish(MonoTime::min()); }

int OutputWriter::add_target(UniqueFd fd, std::string name) {
  int target = add_borrowed_target(fd.get(), std::move(name));
  std::lock_guard lock(state_->mutex);
  state_->targets[target]->owned = std::move(fd);
  return target;
}

int OutputWriter::add_borrowed_target(int fd, std::string name, ConsoleTurns* turns) {
  auto target = std::make_unique<State::Target>();
  struct stat status {};
  target->name = std::move(name);
  target->fd = fd;
  target->turns = turns;
  target->regular_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  std::lock_guard lock(state_->mutex);
  state_->targets[state_->next_target] = std::move(target);
  return state_->next_target++;
}

void OutputWriter::close_target(int target) {
  std::unique_lock lock(state_->mutex);
  state_->queue.push_back({target, {}, true});
  start();
  state_->work.notify_one();
}

void OutputWriter::submit(int target, Block& block) {
  if (block.empty()) return;
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.queued += block.cost();
  State::Job* tail = state.queue.empty() ? nullptr : &state.queue.back();
  if (tail && !tail->close && tail->target == target && tail->block.size() + block.size() <= kJoinBytes) {
    tail->block.append(block);
    block.clear();
    return;
  }
  state.queue.push_back({target, std::move(block), false});
  block = Block();
  if (!state.spares.empty()) {
    block = std::move(state.spares.back());
    state.spares.pop_back();
  }
  start();
  state.work.notify_one();
}

bool OutputWriter::full() {
  if (state_->queued < state_->queue_bytes) return false;
  state_->room_wanted = true;
  // The queue may have drained between the two lines, and then nobody would call on_room.
  return state_->queued >= state_->queue_bytes;
}

bool OutputWriter::overfull() const { return state_->queued >= 2 * state_->queue_bytes; }

bool OutputWriter::has_room() const { return state_->queued <= state_->queue_bytes / 2; }

uint64_t OutputWriter::progress() const { return state_->progress; }

// Start the thread, with the mutex held. Where no thread can be had, e.g. because a worker's fork bomb ate them all,
// the blocks are written here: late and blocking is better than lost.
void OutputWriter::start() {
  if (state_->thread.joinable()) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    state_->thread = std::thread([state = state_] { state->run(); });
  } catch (const std::system_error&) {
    std::unique_lock lock(state_->mutex, std::adopt_lock);
    while (!state_->queue.empty()) state_->work_off(lock);
    lock.release();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OutputWriter::finish(MonoTime deadline) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.thread.joinable()) return;
  auto done = [&] { return state.queue.empty() && !state.busy; };
  // A slow reader that reads on gets more time; one that takes nothing for that long does not.
  const MonoTime start = MonoTime::clock::now();
  const Duration patience = deadline > start ? deadline - start : Duration::zero();
  bool drained = done();
  for (MonoTime until = deadline; !drained && patience > Duration::zero() && until < start + kSlowestReader;) {
    const uint64_t before = progress();
    drained = state.idle.wait_until(lock, until, done);
    if (!drained && progress() == before) break;
    until = MonoTime::clock::now() + patience;
  }
  if (!drained) {
    state.abandoned = true;
    const std::string reason = "not written before dtrain ended";
    if (state.busy) state.count_lost(state.current, state.written, reason);
    for (const State::Job& job : state.queue) state.count_lost(job, 0, reason);
    state.queue.clear();
    state.queued = 0;
  }
  state.stop = true;
  state.work.notify_one();
  std::thread thread = std::move(state.thread);
  lock.unlock();
  drained ? thread.join() : thread.detach();
}

std::vector<WriteLoss> OutputWriter::losses() const {
  std::lock_guard lock(state_->mutex);
  std::vector<WriteLoss> result;
  for (const auto& [key, loss] : state_->lost) result.push_back(loss);
  return result;
}

void OutputWriter::State::run() {
  pthread_setname_np(pthread_self(), "dtrain-output");
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return stop || !queue.empty(); });
    if (queue.empty() || abandoned) return;
    work_off(lock);
  }
}

// Write the first job of the queue, with the mutex released meanwhile.
void OutputWriter::State::work_off(std::unique_lock<std::mutex>& lock) {
  current = std::move(queue.front());
  queue.pop_front();
  Target* target = targets[current.target].get();
  std::unique_ptr<Target> closing;
  if (current.close) {
    closing = std::move(targets[current.target]);
    targets.erase(current.target);
  }
  busy = true;
  written = 0;
  lock.unlock();
  closing.reset();  // close() may wait for a remote disk, so not under the mutex
  int error = current.close ? 0 : write_out(*target, current.block);
  lock.lock();
  busy = false;
  if (abandoned) return;  // finish() has counted it

  if (error != 0) count_lost(current, written, std::strerror(error));
  progress += current.block.size() - written;
  queued -= current.block.cost();
  current.block.clear();
  if (spares.size() < kSparesKept && !current.close) spares.push_back(std::move(current.block));
  if (queued <= queue_bytes / 2 && room_wanted.exchange(false)) on_room();
  if (queue.empty()) idle.notify_all();
}

// Write the block; returns 0 or the errno with which it ended, and keeps `written` up to date.
int OutputWriter::State::write_out(Target& target, const Block& block) {
  if (target.given_up) return target.error;
  MonoTime now = MonoTime::clock::now();
  if (now < target.retry_at) return target.error;
  const ConsoleTurns::Turn turn(target.turns, target.fd);

  while (written < block.size() && !abandoned) {
    size_t rest = block.size() - written;
    size_t slice = target.regular_file ? rest : std::min(rest, target.slice);
    ssize_t n = ::write(target.fd, block.data() + written, slice);
    int error = n < 0 ? errno : n == 0 ? EIO : 0;
    MonoTime after = MonoTime::clock::now();
    target.slice = after - now > kSlowWrite ? kSmallestSlice : std::min(target.slice * 2, kLargestSlice);
    now = after;
    if (n > 0) {
      written += static_cast<size_t>(n);
      progress += static_cast<uint64_t>(n);
    } else if (error == EAGAIN) {
      // Another program made this terminal or pipe non-blocking.
      pollfd ready{target.fd, POLLOUT, 0};
      ::poll(&ready, 1, kPollMs);
    } else if (error != EINTR) {
      target.error = error;
      target.given_up = is_final(error, target.fd);
      target.retry_at = now + kRetryAfter;
      return error;
    }
  }
  return 0;
}

void OutputWriter::State::count_lost(const Job& job, size_t from, const std::string& reason) {
  const auto target = targets.find(job.target);
  const std::string name = target == targets.end() ? "" : target->second->name;
  for (const Segment& segment : job.block.segments()) {
    size_t begin = std::max<size_t>(segment.payload, from);
    if (begin >= segment.end) continue;
    WriteLoss& loss = lost[{name, segment.stream, reason}];
    loss.target = name;
    loss.stream = segment.stream;
    loss.reason = reason;
    loss.bytes += segment.end - begin;
    const char* data = job.block.data();
    loss.lines += static_cast<uint64_t>(std::count(data + begin, data + segment.end, '\n'));
  }
}

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace dtrain::launcher
