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

bool StoreMeeting::has(const std::string& key) { return store_->check({key}); }

void StoreMeeting::append(const std::string& key, const std::string& text) {
  store_->append(key, {text.begin(), text.end()});
}

namespace {

// A wait for a member that is gone would end with its deadline alone.
class SurvivorKeys final : public c10d::PrefixStore {
 public:
  SurvivorKeys(const std::string& prefix, const c10::intrusive_ptr<c10d::Store>& store, std::function<bool()> ended)
      : PrefixStore(prefix, store), ended_(std::move(ended)) {}
  using PrefixStore::wait;
  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const auto deadline = ShmWait::after(timeout);
    LookAgain look;  // c10d warns of each wait() that ends with its timeout
    while (!check(keys)) {
      TORCH_CHECK(!ended_(), "dtrain: a rank has ended");
      TORCH_CHECK(look.pause(deadline), "dtrain: a key did not come within ", timeout.count(), " ms");
    }
  }

 private:
  const std::function<bool()> ended_;
};

}  // namespace

SurvivorsInStore::SurvivorsInStore(const StorePtr& job, Member own, int ranks)
    : store_(c10::make_intrusive<c10d::PrefixStore>("dtrain", job)),
      meeting_(store_),
      survivors_(meeting_, std::move(own), ranks) {}

void SurvivorsInStore::meet(std::chrono::milliseconds timeout, const std::function<void(const StorePtr& keys)>& form) {
  const auto deadline = ShmWait::after(timeout);
  while (true) {
    survivors_.meet(deadline);
    try {
      return form(
          c10::make_intrusive<SurvivorKeys>(world().keys(), store_, [this] { return survivors_.somebody_ended(); }));
    } catch (const std::exception&) {
      // A rank may have seen an end before the launcher could tell of it.
      if (!survivors_.somebody_ends_by(ShmWait::after(std::chrono::seconds{1}))) throw;
    }
  }
}

c10::intrusive_ptr<c10d::Store> fresh_keys(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                           std::optional<std::chrono::milliseconds> timeout) {
  if (ranks == 1) return store;
  StoreMeeting place(store);
  const std::string name = new_attempt(place, rank, ranks, ShmWait::after(timeout.value_or(store->getTimeout())));
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

}  // namespace dtrain
