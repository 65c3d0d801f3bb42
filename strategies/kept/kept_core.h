#pragma once
// How a rank's state lies in the memory that the launcher keeps for it, and which state the ranks go on from. Pure.
//
// The memory begins with a head of one page: who laid it out, and the stamps of two slots. The slots follow. A keep
// fills one slot and leaves the other as it is. A slot counts when its commit word is there, which is written last. So
// a rank that is killed at any moment leaves the state before.
//
//     0   head     "dtrainKS", version, rank, world size, fingerprint, bytes of values; CRC-32C of these
//   256   slot 0   commit word, round, step, bytes of extra; CRC-32C of these
//   512   slot 1   the same
//  4096   values and extra of slot 0, then those of slot 1; each begins at a page
//
// Numbers are little-endian. Ranks that exchange something in each step are at most one step apart, so two slots are
// enough for a step that all of them have.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtrain::kept {

inline constexpr std::size_t kHeadBytes = 4096;
inline constexpr std::uint64_t kExtraBytes = std::uint64_t{1} << 20;  // room for the extra text of a slot
inline constexpr std::size_t kSlots = 2;

// Whose memory it is. With another identity its contents cannot be used.
struct Identity {
  std::uint32_t rank = 0, world_size = 1;
  std::uint64_t fingerprint = 0;  // of the names, types, shapes and parts that are kept
  std::uint64_t value_bytes = 0;  // of one slot
};

// Which state it is. A round that goes on from an earlier step makes later steps anew: they are other states.
struct Stamp {
  std::uint32_t round = 0;
  std::int64_t step = 0;  // 0 or more
  auto operator<=>(const Stamp&) const = default;
};

struct Slot {
  Stamp stamp;
  std::uint64_t extra_bytes = 0;
};

// Where the values of a slot begin in the memory, and where its extra text does.
std::uint64_t values_at(std::uint64_t value_bytes, std::size_t slot);
std::uint64_t extra_at(std::uint64_t value_bytes, std::size_t slot);
std::uint64_t total_bytes(std::uint64_t value_bytes);
// The place of a slot's commit word in the head. 0: the slot is empty.
std::size_t commit_at(std::size_t slot);
std::uint64_t commit_word(const Stamp& stamp);

using Head = std::span<std::byte, kHeadBytes>;
using ConstHead = std::span<const std::byte, kHeadBytes>;

// The caller has emptied both commit words before, and writes the commit word of a slot after write_slot().
void write_head(Head head, const Identity& identity);
void write_slot(Head head, std::size_t number, const Slot& slot);

// What a rank finds.
struct Found {
  std::string why_not{};  // it cannot be used, and why; empty: it can
  bool blank = false;     // nothing was kept here yet
  std::array<std::optional<Slot>, kSlots> slots{};
};
// `memory_bytes`: the size of the memory. A slot with a damaged stamp counts as empty.
Found read_head(ConstHead head, std::uint64_t memory_bytes, const Identity& own);
Found nothing_kept();

// The slot for the next state: one that is empty, else the older one.
std::size_t next_slot(const Found& found);

// What a rank tells the others, as text.
std::string found_text(const Found& found);
Found parse_found(const std::string& text);

// The newest state that every rank has, by what all ranks found. `refused`: there are states, but not one that all
// ranks can use, and this line says why. Nothing of both: nothing was kept.
struct Choice {
  std::optional<Stamp> stamp{};
  std::string refused{};
};
Choice choose(const std::vector<Found>& of_ranks);

}  // namespace dtrain::kept
