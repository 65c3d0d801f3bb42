#pragma once
// The memory that the ranks of a node map: rows that wait, in slots, with their tails; which slots' rows come next; and
// words by which the reader and the members see each other. It has no name and no file, so nothing is left when all
// have gone.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/os/owned_fd.h"

namespace dtrain::data {

inline constexpr std::int64_t no_row = INT64_MAX;

// Written by the member, and by the reader before it has come and after it has gone. The reader writes `expelled`.
struct alignas(64) MemberWords {
  enum State : std::uint32_t { resting, copying, expelled };
  std::atomic<std::int64_t> passed = no_row;  // it needs no row before this one; no_row: there is no such member
  std::atomic<std::int64_t> wanted = no_row;  // it sleeps until rows before this one are shown
  std::atomic<std::uint32_t> state = resting;
  std::atomic<bool> starving = false;
};

// Written by the reader.
struct alignas(64) ReaderWords {
  enum Over : std::uint32_t { reads, left, failed, broken };
  std::atomic<std::int64_t> shown = 0;
  std::atomic<std::int64_t> wanted = no_row;  // it sleeps until the members have passed this row
  std::atomic<std::uint64_t> beat = 0;        // rises while it works, also where no row is shown for long
  std::atomic<std::uint32_t> over = reads;    // no row is shown any more. failed: a DataError, which is in `error`.
                                              // broken: why, in `error`, if there is more to say
  std::atomic<bool> rests = false;            // it begins with the next epoch when a member wants a row of it
  std::atomic<std::uint32_t> ranks = 0;       // how many have come, once it waits for no more
  std::atomic<std::int64_t> disk_ns = 0, decode_ns = 0, copy_ns = 0;  // of reading, in all
  char error[2000] = {};
};

struct RegionSize {
  std::uint64_t members = 0, ring_rows = 0, slots = 0, row_bytes = 0;
  std::uint64_t tail_bytes =
      0;  // for rows that differ in length: as many as there can be. Those not used take no memory

  bool operator==(const RegionSize&) const = default;
};

class Region {
 public:
  // Nothing: `why` says why there is no such memory.
  static std::optional<Region> create(const RegionSize& size, std::string& why);
  // Of what create() has made in another process. Nothing: it is no such memory, or not of this size.
  static std::optional<Region> open(OwnedFd memory, const RegionSize& size);
  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;
  ~Region();

  const RegionSize& size() const { return size_; }
  // What create() has made. open() keeps no descriptor: a mixture has a region for each source.
  int fd() const { return memory_.get(); }
  // The kernel gets the memory of rows and tails back. Nobody may read them any more, in any process.
  void free_rows();
  ReaderWords& reader() const;
  std::span<MemberWords> members() const;
  // The slots of the next `count` rows from `row` on, or as many as lie side by side.
  std::span<std::uint32_t> ring(std::int64_t row, std::int64_t count) const;
  std::byte* rows() const { return begin_ + rows_at(size_); }
  std::span<std::byte> tails() const { return {begin_ + tails_at(size_), size_.tail_bytes}; }

 private:
  Region(OwnedFd memory, const RegionSize& size, std::byte* begin)
      : memory_(std::move(memory)), size_(size), begin_(begin) {}
  static std::optional<Region> map(OwnedFd memory, const RegionSize& size);
  static std::size_t ring_at(const RegionSize& size);
  static std::size_t rows_at(const RegionSize& size);
  static std::size_t tails_at(const RegionSize& size);
  static std::size_t bytes(const RegionSize& size) { return tails_at(size) + size.tail_bytes; }

  OwnedFd memory_;
  RegionSize size_;
  std::byte* begin_;
};

}  // namespace dtrain::data
