#pragma once
// The file that has an optimizer's state, in a folder of a disk. It has no name: it is gone when the last process that
// has it ends, however it ends. Two ways lead to its bytes: rows() are the bytes themselves, for whoever saves or loads
// the state; walk() brings parts of them to memory and back, past the page cache, for a step.
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>

#include "dtrain/optimizer.h"
#include "strategies/optim/state_plan.h"

namespace dtrain {

class StateFile : public std::enable_shared_from_this<StateFile> {
 public:
  // All its room is reserved. Throws ConfigError if the folder is not there, lies in memory, or has not enough room.
  static std::shared_ptr<StateFile> make(const std::string& folder, std::uint64_t bytes);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Mapped memory, one row for each state of the region. The tensors keep the file.
  std::vector<at::Tensor> rows(const StateRegion& region, at::ScalarType type);

  // Calls act(job, memory) for one job after the other. Threads read the jobs that come and, if `writes`, write back
  // those that are done. Memory for kJobsInFlight jobs is held, or for two if these have more than kBytesInFlight
  // together. Throws std::runtime_error if the disk fails: the state is lost then.
  using Act = std::function<void(const StateJob& job, std::byte* memory)>;
  void walk(const std::vector<StateJob>& jobs, bool writes, const Act& act);

  static constexpr std::uint64_t kJobBytes = std::uint64_t{8} << 20;
  static constexpr std::size_t kJobsInFlight = 8;
  static constexpr std::uint64_t kBytesInFlight = kJobBytes * kJobsInFlight;

 private:
  class Walk;
  StateFile(std::string folder, std::uint64_t bytes);
  void reserve();
  void map();
  void go_past_page_cache();
  void take_memory(std::uint64_t bytes);
  void transfer(const StateJob& job, std::byte* memory, bool writes) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string folder_;
  int fd_;
  std::uint64_t bytes_;
  std::byte* mapped_ = nullptr;
  std::byte* memory_ = nullptr;  // of the jobs in flight
  std::uint64_t memory_bytes_ = 0;
  std::string failure_{};  // of an earlier walk
};

}  // namespace dtrain
