#pragma once
// Memory for decoded row groups. What one group has given back the next one takes, so the pages are touched once, and
// no more is held than a group needs. malloc would keep holes between blocks that it cannot return.
#include <arrow/memory_pool.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace dtrain::data {

// Small blocks come from malloc.
class GroupPool : public arrow::MemoryPool {
 public:
  ~GroupPool() override;
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override;
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** block) override;
  void Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) override;
  void ReleaseUnused() override;

  std::int64_t bytes_allocated() const override { return below_->bytes_allocated(); }
  std::int64_t total_bytes_allocated() const override { return below_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return below_->num_allocations(); }
  std::string backend_name() const override { return "dtrain"; }

 private:
  arrow::MemoryPool* below_ = arrow::system_memory_pool();
  std::mutex mutex_;
  std::multimap<std::int64_t, std::uint8_t*> free_;  // by size
};

}  // namespace dtrain::data
