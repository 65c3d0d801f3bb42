#pragma once
// How the state of a rank lies in a memory that the launcher keeps. Pure.
//
// The memory begins with a head of one page: whose state it is, and the stamps of two slots. The slots follow. A keep
// fills one slot and leaves the other as it is. A slot counts when its commit word is there, which is written last. So
// a rank that is killed at any moment leaves the state before.
//
//     0   head     "dtrainKS", version, rank, world size, fingerprint, bytes of values, number of parts; CRC-32C of the
//                  parts, and of all of these
//   256   slot 0   commit word, round, step, bytes of extra; CRC-32C of these
//   512   slot 1   the same
//  4096   values and extra of slot 0, then those of slot 1, then the parts; each begins at a page
//
// A part says which elements of a tensor the values have, and where: four numbers of 8 bytes. Numbers are
// little-endian. Ranks that exchange something in each step are at most one step apart, so two slots are
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

// The elements of a tensor that a slot has.
struct Part {
  std::uint64_t index = 0;             // of the tensor, in the list of all
  std::uint64_t begin = 0, count = 0;  // in the whole tensor
  std::uint64_t at = 0;                // bytes, in the values of the slot
  bool operator==(const Part&) const = default;
};

// Whose state it is. `fingerprint` is that of the names, types and shapes of all tensors: it is the same on all ranks,
// and with another one the contents cannot be used.
struct Identity {
  std::uint32_t rank = 0, world_size = 1;
  std::uint64_t fingerprint = 0;
  std::uint64_t value_bytes = 0;  // of one slot
  std::vector<Part> parts{};
  bool operator==(const Identity&) const = default;
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

// Where the values of a slot begin in the memory, where its extra text does, and where the parts do.
std::uint64_t values_at(std::uint64_t value_bytes, std::size_t slot);
std::uint64_t extra_at(std::uint64_t value_bytes, std::size_t slot);
std::uint64_t parts_at(std::uint64_t value_bytes);
std::uint64_t total_bytes(std::uint64_t value_bytes, std::uint64_t parts);
// The place of a slot's commit word in the head. 0: the slot is empty.
std::size_t commit_at(std::size_t slot);
std::uint64_t commit_word(const Stamp& stamp);

using Head = std::span<std::byte, kHeadBytes>;
using ConstHead = std::span<const std::byte, kHeadBytes>;

// The caller has emptied both commit words before, writes the parts at parts_at(), and writes the commit word of a slot
// after write_slot().
void write_head(Head head, const Identity& identity);
void write_slot(Head head, std::size_t number, const Slot& slot);

// What is there.
struct Found {
  std::string why_not{};  // it cannot be used, and why; empty: it can
  bool blank = false;     // nothing was kept here yet
  Identity identity{};    // of what can be used
  std::array<std::optional<Slot>, kSlots> slots{};
};
Found nothing_kept();

// In two steps, as the head says how large the memory is: first all but the parts, then these. `memory_bytes`: the size
// of the memory; `fingerprint`: of the tensors that this program has. A slot with a damaged stamp counts as empty.
struct HeadFacts {
  Found found;
  std::uint64_t parts = 0;  // how many there are
  std::uint32_t parts_sum = 0;
};
HeadFacts read_head(ConstHead head, std::uint64_t memory_bytes, std::uint64_t fingerprint);
// `bytes`: as many as the head says, from parts_at().
Found read_parts(HeadFacts facts, const std::byte* bytes);

// The slot for the next state: one that is empty, else the older one.
std::size_t next_slot(const Found& found);
// The slot that has this state.
std::optional<std::size_t> slot_of(const Found& found, const Stamp& stamp);

}  // namespace dtrain::kept
