#pragma once
// The c10d store as a group's meeting place.
#include <chrono>
#include <optional>

#include "strategies/comm/bootstrap/group_store.h"
#include "strategies/torch/pch.h"

namespace dtrain {

class StoreMeeting final : public GroupStore {
 public:
  explicit StoreMeeting(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void put(const std::string& key, const std::string& value) override;
  std::string take(const std::string& key, Deadline deadline) override;
  std::string first(const std::string& key, const std::string& value) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

// Collective: new_attempt(), and the store with the keys under its name. `timeout`: for all ranks to come; none: as
// long as the store waits.
c10::intrusive_ptr<c10d::Store> fresh_keys(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                           std::optional<std::chrono::milliseconds> timeout = {});

}  // namespace dtrain
