#pragma once
// The tensors that all ranks have reduced before, in numbered slots, so that one bit says that a rank has one again.
// Pure: ranks that do the same to their caches have the same tensors in the same slots.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "strategies/horovod/request_wire.h"

namespace dtrain::hvd {

class ResponseCache {
 public:
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  // Slots are numbered below this; some may be empty.
  std::size_t slots() const { return slots_.size(); }
  std::size_t tensors() const { return by_name_.size(); }
  const std::optional<Request>& at(std::size_t slot) const { return slots_[slot].request; }
  std::optional<std::size_t> find(const std::string& name) const;

  // Into the first empty slot, or that of the tensor that was used longest ago. Its name is in no slot.
  void put(const Request& request);
  void use(std::size_t slot) { slots_[slot].used = ++uses_; }
  void drop(std::size_t slot);

 private:
  struct Slot {
    std::optional<Request> request;
    std::uint64_t used = 0;
  };
  std::size_t slot_for_new();

  const std::size_t capacity_;
  std::vector<Slot> slots_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::uint64_t uses_ = 0;
};

}  // namespace dtrain::hvd
