// Tested by test/unit/strategies/optim/state_on_disk_test.cc.
#include "strategies/optim/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "strategies/comm/base/signals_blocked.h"

namespace dtrain {
namespace {

constexpr int kReaders = 2, kWriters = 2;  // a disk is fastest with some requests at a time
constexpr double kMiBOfState = 1 << 20;

std::string mib(std::uint64_t bytes) { return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / kMiBOfState); }

int open_without_name(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = folder + "/.dtrain-state-XXXXXX";  // the file system cannot do it in one call
  fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(path.c_str());
  return fd;
}

std::byte* new_memory(int fd, int flags, std::uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_DONTFORK);  // a child that is forked has no business here
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::shared_ptr<StateFile> StateFile::make(const std::string& folder, std::uint64_t bytes) {
  std::shared_ptr<StateFile> file(new StateFile(folder, bytes));
  if (file->fd_ < 0)
    file->refuse(fmt::format("{}; name a folder of a disk that is there on each host", std::strerror(errno)));
  struct statfs facts {};
  if (::fstatfs(file->fd_, &facts) == 0 && (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC))
    file->refuse("the folder lies in memory itself (tmpfs); name a folder of a disk");
  file->reserve();
  file->map();
  file->go_past_page_cache();
  return file;
}

StateFile::StateFile(std::string folder, std::uint64_t bytes)
    : folder_(std::move(folder)), fd_(open_without_name(folder_)), bytes_(std::max(bytes, kFileBlock)) {}

StateFile::~StateFile() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void StateFile::refuse(const std::string& why) const {
  throw ConfigError(
      fmt::format("dtrain: state_folder '{}' cannot have the optimizer's state ({}): {}", folder_, mib(bytes_), why));
}

// Room that is reserved cannot fail to be there later, when a write to the mapping would end the process by SIGBUS.
void StateFile::reserve() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes_)
    refuse(fmt::format("the limit of a file's size is {} (`ulimit -f`)", mib(limit.rlim_cur)));
  // Asked first, so that an attempt that must fail does not take what others need.
  struct statfs facts {};
  if (::fstatfs(fd_, &facts) == 0) {
    const std::uint64_t free = facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize);
    if (free < bytes_) refuse(fmt::format("{} are free there; make room, or name another folder", mib(free)));
  }
  int error = 0;
  do error = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes_));
  while (error == EINTR);
  if (error != 0) refuse(fmt::format("{}; make room, or name another folder", std::strerror(error)));
}

void StateFile::map() {
  mapped_ = new_memory(fd_, MAP_SHARED, bytes_);
  if (mapped_ == nullptr) refuse(fmt::format("it cannot be mapped: {}", std::strerror(errno)));
  ::madvise(mapped_, bytes_, MADV_SEQUENTIAL);
}

// Some file systems cannot, and go through it.
void StateFile::go_past_page_cache() {
  take_memory(kFileBlock);
  const int flags = ::fcntl(fd_, F_GETFL);
  const bool can = ::fcntl(fd_, F_SETFL, flags | O_DIRECT) == 0 &&
                   ::pread(fd_, memory_, kFileBlock, 0) == static_cast<ssize_t>(kFileBlock);
  if (!can) ::fcntl(fd_, F_SETFL, flags);
}

std::vector<at::Tensor> StateFile::rows(const StateRegion& region, at::ScalarType type) {
  std::vector<at::Tensor> rows;
  for (std::size_t state = 0; state < region.states; ++state) {
    if (region.count == 0) {
      rows.push_back(at::empty({0}, type));
      continue;
    }
    rows.push_back(at::from_blob(
        mapped_ + region.begin + state * region.row_bytes(), {region.count}, [self = shared_from_this()](void*) {},
        at::TensorOptions(type)));
  }
  return rows;
}

void StateFile::take_memory(std::uint64_t bytes) {
  if (bytes <= memory_bytes_) return;
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  memory_bytes_ = 0;
  memory_ = new_memory(-1, MAP_PRIVATE | MAP_ANONYMOUS, bytes);
  if (memory_ == nullptr) throw std::bad_alloc();
  ::madvise(memory_, bytes, MADV_HUGEPAGE);  // a direct request pins its pages: 4 in place of 2048
  memory_bytes_ = bytes;
}

void StateFile::transfer(const StateJob& job, std::byte* memory, bool writes) const {
  for (const FileRange& range : job.ranges) {
    for (std::uint64_t done = 0; done < range.bytes;) {
      std::byte* const place = memory + range.place + done;
      const auto at = static_cast<off_t>(range.begin + done);
      const ssize_t moved =
          writes ? ::pwrite(fd_, place, range.bytes - done, at) : ::pread(fd_, place, range.bytes - done, at);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0)
        throw std::runtime_error(fmt::format(
            "dtrain: the optimizer's state in state_folder '{}' cannot be {}: {}; go on "
            "from the last checkpoint",
            folder_, writes ? "written" : "read", moved == 0 ? "its file is too short" : std::strerror(errno)));
      done += static_cast<std::uint64_t>(moved);
    }
  }
}

// One walk: readers ahead of the caller, writers behind it, and a slot of memory for each job in flight.
class StateFile::Walk {
 public:
  Walk(const StateFile& file, const std::vector<StateJob>& jobs, bool writes, std::size_t slots,
       std::uint64_t slot_bytes)
      : file_(file),
        jobs_(jobs),
        slots_(slots),
        slot_bytes_(slot_bytes),
        is_read_(jobs.size()),
        is_done_(jobs.size()),
        is_free_(jobs.size()) {
    const SignalsBlocked blocked;
    try {
      for (int i = 0; i < kReaders; ++i) threads_.emplace_back([this] { read_all(); });
      for (int i = 0; writes && i < kWriters; ++i) threads_.emplace_back([this] { write_all(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Walk() { stop(); }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  std::byte* wait_for(std::size_t job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || is_read_[job] != 0; });
    if (error_) std::rethrow_exception(error_);
    return memory_of(job);
  }
  void done(std::size_t job, bool is_free) {
    const std::lock_guard lock(mutex_);
    is_done_[job] = 1;
    if (is_free) is_free_[job] = 1;
    changed_.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return error_ || std::all_of(is_free_.begin(), is_free_.end(), [](char c) { return c != 0; }); });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::byte* memory_of(std::size_t job) const { return file_.memory_ + job % slots_ * slot_bytes_; }

  void read_all() {
    work(next_read_, is_read_, false, [this](std::size_t job) { return job < slots_ || is_free_[job - slots_] != 0; });
  }
  void write_all() {
    work(next_write_, is_free_, true, [this](std::size_t job) { return is_done_[job] != 0; });
  }
  template <class Ready>
  void work(std::size_t& next, std::vector<char>& marks, bool writes, Ready ready) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || next == jobs_.size() || ready(next); });
      if (stopped_ || next == jobs_.size()) return;
      const std::size_t job = next++;
      lock.unlock();
      std::exception_ptr error;
      try {
        file_.transfer(jobs_[job], memory_of(job), writes);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) {
        error_ = error;
        stopped_ = true;
      }
      marks[job] = 1;
      changed_.notify_all();
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    for (std::thread& each : threads_) each.join();
  }

  const StateFile& file_;
  const std::vector<StateJob>& jobs_;
  std::size_t slots_;
  std::uint64_t slot_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_read_ = 0, next_write_ = 0;
  std::vector<char> is_read_, is_done_, is_free_;  // by job
  std::exception_ptr error_;
  bool stopped_ = false;
  std::vector<std::thread> threads_{};
};

void StateFile::walk(const std::vector<StateJob>& jobs, bool writes, const Act& act) {
  if (!failure_.empty()) throw std::runtime_error(failure_);
  if (jobs.empty()) return;
  std::uint64_t largest = 0;
  for (const StateJob& job : jobs) largest = std::max(largest, job.bytes);
  const std::uint64_t fitting = kBytesInFlight / std::max(largest, kFileBlock);
  const auto slots = std::min({std::clamp<std::size_t>(fitting, 2, kJobsInFlight), jobs.size()});
  take_memory(slots * largest);
  Walk walk(*this, jobs, writes, slots, largest);
  failure_ = "dtrain: an earlier step of the optimizer has failed in the middle; go on from the last checkpoint";
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    act(jobs[job], walk.wait_for(job));
    walk.done(job, !writes);
  }
  walk.finish();
  failure_.clear();
}

}  // namespace dtrain
