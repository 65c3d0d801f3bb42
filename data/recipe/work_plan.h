#pragma once
// How the work is divided: into partitions, blocks and buckets, by the memory that there may be. None of it depends on
// the number of threads. Pure.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain::data {

struct WorkPlan {
  std::int64_t store_bytes = 0;   // of rows that wait, in memory
  std::int64_t block_bytes = 0;   // of rows that are put into order at once, and of a bucket
  std::int64_t counts_bytes = 0;  // of the different values of a column
  // The first unit of each partition, and the number of units at the end.
  std::vector<std::size_t> partitions;
  std::size_t threads = 1;

  std::size_t partition_count() const { return partitions.size() - 1; }
};

struct WorkFacts {
  std::vector<std::int64_t> unit_bytes;  // in memory, at their largest
  std::int64_t memory_bytes = 0;         // the limit
  std::optional<std::int64_t> parallelism;
  std::size_t threads = 1;  // at most
};

WorkPlan plan_work(const WorkFacts& facts);

// The largest unit that a limit allows: it is in memory several times while operations change it.
constexpr std::int64_t unit_bytes_max(std::int64_t memory_bytes) { return memory_bytes / 8; }

}  // namespace dtrain::data
