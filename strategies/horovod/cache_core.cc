// See cache_core.h.
#include "strategies/horovod/cache_core.h"

#include <algorithm>

namespace dtrain::hvd {

std::optional<std::size_t> ResponseCache::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

void ResponseCache::put(const Request& request) {
  if (capacity_ == 0) return;
  const std::size_t slot = slot_for_new();
  by_name_[request.name] = slot;
  slots_[slot].request = request;
  use(slot);
}

std::size_t ResponseCache::slot_for_new() {
  const auto empty = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.request; });
  if (empty != slots_.end()) return static_cast<std::size_t>(empty - slots_.begin());
  if (slots_.size() < capacity_) {
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  const auto oldest =
      std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.used < b.used; });
  const auto slot = static_cast<std::size_t>(oldest - slots_.begin());
  drop(slot);
  return slot;
}

void ResponseCache::drop(std::size_t slot) {
  by_name_.erase(slots_[slot].request->name);
  slots_[slot].request.reset();
}

}  // namespace dtrain::hvd
