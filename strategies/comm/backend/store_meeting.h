#pragma once
// The c10d store as a group's meeting place.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "strategies/comm/bootstrap/group_store.h"
#include "strategies/comm/bootstrap/survivors.h"
#include "strategies/torch/pch.h"

namespace dtrain {

class StoreMeeting final : public MemberStore {
 public:
  explicit StoreMeeting(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void put(const std::string& key, const std::string& value) override;
  std::string take(const std::string& key, Deadline deadline) override;
  std::string first(const std::string& key, const std::string& value) override;
  bool has(const std::string& key) override;
  void append(const std::string& key, const std::string& text) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

// The ranks that are left of a job (survivors.h), in its store, whose keys are under the name that the launcher knows.
class SurvivorsInStore {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;
  // `job`: the store that the launcher serves. `ranks`: of the world that it started.
  SurvivorsInStore(const StorePtr& job, Member own, int ranks);

  // As Survivors::meet(). Then `form` has the keys of the world's group, and forms it; waits for those keys end when a
  // member does, and the others meet again. Throws what `form` throws if no member has ended.
  void meet(std::chrono::milliseconds timeout, const std::function<void(const StorePtr& keys)>& form);
  const SurvivorWorld& world() const { return survivors_.world(); }
  int rank() const { return survivors_.rank(); }
  bool joiners_wait() { return survivors_.joiners_wait(); }

 private:
  StorePtr store_;
  StoreMeeting meeting_;
  Survivors survivors_;
};

// Collective: new_attempt(), and the store with the keys under its name. `timeout`: for all ranks to come; none: as
// long as the store waits.
c10::intrusive_ptr<c10d::Store> fresh_keys(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                           std::optional<std::chrono::milliseconds> timeout = {});

}  // namespace dtrain
