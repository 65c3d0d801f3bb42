#pragma once
// Values that a thread copies while others may still read them. Whoever wants to change them helps with what is left: a
// thread that gets no core delays nobody by more than the stretch that it has begun.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtrain::background {

class ValueCopy {
 public:
  static constexpr std::size_t kStretchBytes = std::size_t{1} << 20;  // what a thread copies at a time

  // Before the first run(). `owner` keeps the values alive as long as this object lives; null: the caller does.
  void add(void* to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner = nullptr);

  // Copies what no thread has begun, and returns when all is copied. Any number of threads may call it.
  void run() noexcept;
  bool is_complete() const noexcept { return left_.load(std::memory_order_acquire) == 0; }

 private:
  struct Stretch {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  std::vector<Stretch> stretches_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint32_t> left_ = 0;  // stretches that are not copied
};

}  // namespace dtrain::background
