#pragma once
// The memory that the launcher keeps for a rank: its descriptor, its mapping and its two slots. It is the launcher's,
// so it stays when this process ends.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "strategies/kept/kept_core.h"

namespace dtrain::kept {

class KeptMemory {
 public:
  // Takes over the descriptor: programs that this process starts do not get it. Throws ConfigError if it is not the
  // launcher's memory, or if another process, or another KeptMemory of this one, has taken it. `variable`: where the
  // number of the descriptor comes from.
  explicit KeptMemory(int fd, const char* variable = "DTRAIN_STATE_FD");
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // What is there of these tensors. Maps it.
  const Found& find(std::uint64_t fingerprint);
  // What is there, since the last find(), make_room() or lay_out().
  const Found& found() const { return found_; }
  // The memory is that of this identity: what it has kept stays, or it is laid out. Throws as lay_out() does.
  void make_room(const Identity& identity);
  // Both slots are empty, and there is room for the values. Memory that an earlier layout needed is given back. Throws
  // checkpoint::Refused: there is not enough memory; what was kept is as it was.
  void lay_out(const Identity& identity);

  // Of a memory that was found or laid out.
  std::byte* values(std::size_t slot) const;
  std::byte* extra(std::size_t slot) const;
  // The slot for the next state; it counts no more.
  std::size_t begin();
  // The slot counts: its values and extra are there.
  void commit(std::size_t slot, const Slot& what);
  // The states that are newer than this one count no more: they are made anew.
  void forget_after(const Stamp& stamp);

 private:
  bool is_of(const Identity& identity) const { return found_.why_not.empty() && found_.identity == identity; }
  Found look(std::uint64_t fingerprint);
  void empty(std::size_t slot);
  Head head() const { return Head(base_, kHeadBytes); }
  std::atomic_ref<std::uint64_t> commit_word_of(std::size_t slot) const;
  std::uint64_t size() const;
  std::uint64_t reserved() const;
  void reserve(std::uint64_t bytes);
  void give_back_behind(std::uint64_t bytes) noexcept;
  void map(std::uint64_t bytes);
  void unmap() noexcept;

  int fd_;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_ = 0;
  std::uint64_t value_bytes_ = 0;
  Found found_ = nothing_kept();
};

}  // namespace dtrain::kept
