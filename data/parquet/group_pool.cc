#include "data/parquet/group_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace dtrain::data {
namespace {

constexpr std::int64_t page = 4096;

// Blocks of this size and more are pages of their own.
constexpr std::int64_t large = 16 * page;

std::int64_t in_pages(std::int64_t size) { return (size + page - 1) / page * page; }

}  // namespace

GroupPool::~GroupPool() { ReleaseUnused(); }

void GroupPool::ReleaseUnused() {
  const std::lock_guard lock(mutex_);
  for (const auto& [size, block] : free_) munmap(block, static_cast<std::size_t>(size));
  free_.clear();
}

arrow::Status GroupPool::Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) {
  if (size < large) return below_->Allocate(size, alignment, out);
  const std::int64_t wanted = in_pages(size);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(wanted); found != free_.end()) {
      *out = found->second;
      free_.erase(found);
      return arrow::Status::OK();
    }
  }
  ReleaseUnused();  // the groups' sizes differ: what does not fit now may never fit again
  void* block =
      mmap(nullptr, static_cast<std::size_t>(wanted), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return arrow::Status::OutOfMemory("no memory for ", size, " bytes of a row group");
  *out = static_cast<std::uint8_t*>(block);
  return arrow::Status::OK();
}

void GroupPool::Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) {
  if (size < large) return below_->Free(block, size, alignment);
  const std::lock_guard lock(mutex_);
  free_.emplace(in_pages(size), block);
}

arrow::Status GroupPool::Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                                    std::uint8_t** block) {
  if (old_size < large && new_size < large) return below_->Reallocate(old_size, new_size, alignment, block);
  if (old_size >= large && new_size >= large && in_pages(old_size) == in_pages(new_size)) return arrow::Status::OK();
  std::uint8_t* moved = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
  std::memcpy(moved, *block, static_cast<std::size_t>(std::min(old_size, new_size)));
  Free(*block, old_size, alignment);
  *block = moved;
  return arrow::Status::OK();
}

}  // namespace dtrain::data
