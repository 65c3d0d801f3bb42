// See store_meeting.h.
#include "strategies/comm/backend/store_meeting.h"

#include <algorithm>

#include "strategies/comm/bootstrap/fresh_keys.h"
#include "strategies/comm/memory/shm_wait.h"
#include "strategies/torch/compat.h"

namespace dtrain {

void StoreMeeting::put(const std::string& key, const std::string& value) { store_->set(key, value); }

std::string StoreMeeting::take(const std::string& key, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  try {
    store_->wait({key}, std::max(left, std::chrono::milliseconds{1}));
    return store_->get_to_str(key);
  } catch (const c10::Error& error) {
    throw std::runtime_error(short_reason(error));
  }
}

std::string StoreMeeting::first(const std::string& key, const std::string& value) {
  return store_->compareSet(key, "", value);
}

c10::intrusive_ptr<c10d::Store> fresh_keys(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                           std::optional<std::chrono::milliseconds> timeout) {
  if (ranks == 1) return store;
  StoreMeeting place(store);
  const std::string name = new_attempt(place, rank, ranks, ShmWait::after(timeout.value_or(store->getTimeout())));
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

}  // namespace dtrain
