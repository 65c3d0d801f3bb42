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

  // Where the range begins: in the smallest gap that has room, so that large gaps stay. None where there is no room.
  std::optional<std::size_t> allocate(std::size_t bytes);
  struct Range {
    std::size_t at, bytes;
  };
  // Of allocate(), which may give it out again; none for one that is kept.
  std::optional<Range> release(std::size_t at);
  // Never give out again the range in which this place lies.
  void keep(std::size_t place);

  std::size_t in_use() const { return in_use_; }

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
