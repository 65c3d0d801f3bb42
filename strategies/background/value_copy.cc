#include "strategies/background/value_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtrain::background {

void ValueCopy::add(void* to, const void* from, std::size_t bytes, std::shared_ptr<const void> owner) {
  for (std::size_t done = 0; done < bytes; done += kStretchBytes)
    stretches_.push_back({static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
                          std::min(kStretchBytes, bytes - done)});
  if (owner) owners_.push_back(std::move(owner));
  left_.store(static_cast<std::uint32_t>(stretches_.size()), std::memory_order_relaxed);
}

void ValueCopy::run() noexcept {
  for (std::size_t i = next_++; i < stretches_.size(); i = next_++) {
    std::memcpy(stretches_[i].to, stretches_[i].from, stretches_[i].bytes);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
  }
  for (std::uint32_t left = left_.load(std::memory_order_acquire); left != 0;
       left = left_.load(std::memory_order_acquire))
    left_.wait(left, std::memory_order_acquire);
}

}  // namespace dtrain::background
