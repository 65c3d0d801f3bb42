#pragma once
// Which ranges of a stretch of memory are in use. Pure; one thread at a time.
#include <cstddef>
#include <map>
#include <optional>

namespace dtrain {

class ArenaPlan {
 public:
  // `granule` divides `size`; every range begins and ends at a multiple of it.
  ArenaPlan(std::size_t size, std::size_t granule) : size_(size), granule_(granule) { free_[0] = size; }

  // Take a range, and return where it begins. It lies in the smallest gap that has room, so that large gaps stay.
  // Nothing if there is no room.
  std::optional<std::size_t> allocate(std::size_t bytes);
  struct Range {
    std::size_t at, bytes;
  };
  // Release a range of allocate(), which may give it out again, and return it. Nothing if the range is kept.
  std::optional<Range> release(std::size_t at);
  // Never give the range in which this place lies out again.
  void keep(std::size_t place);

  std::size_t in_use() const { return in_use_; }
  // The end of the last range in use.
  std::size_t end() const { return used_.empty() ? 0 : used_.rbegin()->first + used_.rbegin()->second.bytes; }

 private:
  struct Used {
    std::size_t bytes;
    bool kept;
  };
  const std::size_t size_, granule_;
  std::map<std::size_t, std::size_t> free_;  // no two of them touch
  std::map<std::size_t, Used> used_;
  std::size_t in_use_ = 0;
};

}  // namespace dtrain
