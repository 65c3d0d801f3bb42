#pragma once
// Where an optimizer's state lies in a file, and in which jobs a step brings it to memory and back. Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

// Requests that go past the page cache begin and end at multiples of this, in the file and in memory.
constexpr std::uint64_t kFileBlock = 4096;

// The state of one slice: `states` rows of `count` elements, each from a block's begin on.
struct StateRegion {
  std::int64_t count = 0;
  std::size_t states = 0;
  std::size_t element_bytes = 4;
  bool is_whole = false;  // an update needs all of it at one time
  std::uint64_t begin = 0;

  std::uint64_t row_bytes() const;  // whole blocks
  std::uint64_t bytes() const { return row_bytes() * states; }
};

// Lays the regions out side by side. Returns the bytes of the file.
std::uint64_t place_regions(std::vector<StateRegion>& regions);

// What a job brings of one region.
struct StateUse {
  std::size_t region = 0;
  std::int64_t begin = 0;  // the first element
  std::int64_t count = 0;
  std::vector<std::uint64_t> rows{};  // the place of each state's first element in the job's memory
};

struct FileRange {
  std::uint64_t begin = 0, bytes = 0;
  std::uint64_t place = 0;  // in the job's memory
};

struct StateJob {
  std::vector<FileRange> ranges{};
  std::vector<StateUse> uses{};
  std::uint64_t bytes = 0;  // of its memory
};

// The jobs for these regions, in their order. Each has `most` bytes or fewer, unless a region that is whole has more.
// A part of a region begins at a multiple of kJobElements. Small regions that lie side by side are one range.
constexpr std::int64_t kJobElements = 64 * 1024;
std::vector<StateJob> plan_jobs(const std::vector<StateRegion>& regions, const std::vector<std::size_t>& used,
                                std::uint64_t most);

}  // namespace dtrain
