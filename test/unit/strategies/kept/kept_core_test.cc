// The layout of the kept state: whatever is torn, cut or of another job, no rank goes on from something that is not
// whole.
#include "strategies/kept/kept_core.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "test/support/catch.h"
#include "test/support/golden.h"

using namespace dtrain::kept;

namespace {

const Identity kOwn{.rank = 1,
                    .world_size = 2,
                    .fingerprint = 0x0123456789abcdef,
                    .value_bytes = 10'000,
                    .parts = {{0, 4, 4, 0}, {2, 0, 7, 64}}};

// A memory as KeptMemory fills it, step by step.
struct Memory {
  alignas(8) std::array<std::byte, kHeadBytes> bytes{};
  std::vector<Part> parts = kOwn.parts;
  std::uint64_t size = total_bytes(kOwn.value_bytes, kOwn.parts.size());

  Head head() { return Head(bytes); }
  Found read(std::uint64_t fingerprint = kOwn.fingerprint) {
    return read_parts(read_head(head(), size, fingerprint), reinterpret_cast<const std::byte*>(parts.data()));
  }
  void set_commit(std::size_t slot, std::uint64_t word) { std::memcpy(&bytes[commit_at(slot)], &word, sizeof word); }
  void keep(std::size_t slot, Slot what) {
    set_commit(slot, 0);
    write_slot(head(), slot, what);
    set_commit(slot, commit_word(what.stamp));
  }
};

Memory with_steps(Stamp first, Stamp second) {
  Memory memory;
  write_head(memory.head(), kOwn);
  memory.keep(0, {first, 5});
  memory.keep(1, {second, 0});
  return memory;
}

}  // namespace

TEST_CASE("slots lie behind the head, each at a page, and do not overlap") {
  CHECK(values_at(10'000, 0) == 4096);
  CHECK(extra_at(10'000, 0) == 4096 + 12'288);
  CHECK(values_at(10'000, 1) == extra_at(10'000, 0) + kExtraBytes);
  CHECK(extra_at(10'000, 1) == values_at(10'000, 1) + 12'288);
  CHECK(parts_at(10'000) == extra_at(10'000, 1) + kExtraBytes);
  CHECK(total_bytes(10'000, 0) == parts_at(10'000));
  CHECK(total_bytes(10'000, 128) == parts_at(10'000) + 4096);
  CHECK(total_bytes(10'000, 129) == parts_at(10'000) + 8192);
  CHECK(total_bytes(0, 0) == 4096 + 2 * kExtraBytes);
  CHECK(commit_at(0) % 64 == 0);
  CHECK(commit_at(1) % 64 == 0);
}

TEST_CASE("the head's bytes are those of the golden file") {
  Memory memory = with_steps({0, 41}, {3, 42});
  std::string text;
  for (std::size_t row = 0; row < kHeadBytes; row += 16) {
    const auto begin = memory.bytes.begin() + std::ptrdiff_t(row);
    if (std::all_of(begin, begin + 16, [](std::byte each) { return each == std::byte{0}; })) continue;
    char word[8];
    std::snprintf(word, sizeof word, "%04zx", row);
    text += word;
    for (auto each = begin; each != begin + 16; ++each) {
      std::snprintf(word, sizeof word, " %02x", std::to_integer<unsigned>(*each));
      text += word;
    }
    text += '\n';
  }
  dtrain::test::check_golden("kept/head.txt", text);
}

TEST_CASE("what was kept is found, and fresh memory has nothing") {
  Memory memory;
  CHECK(memory.read().blank);
  CHECK(memory.read().why_not == "nothing is kept there");
  write_head(memory.head(), kOwn);
  CHECK(memory.read().blank);
  memory.keep(1, {{2, 0}, 7});
  const Found found = memory.read();
  CHECK_FALSE(found.blank);
  CHECK(found.why_not.empty());
  CHECK_FALSE(found.slots[0]);
  CHECK(found.slots[1]->stamp == Stamp{2, 0});
  CHECK(found.slots[1]->extra_bytes == 7);
  CHECK(found.identity == kOwn);
  CHECK(slot_of(found, {2, 0}) == 1);
  CHECK_FALSE(slot_of(found, {2, 1}));
}

TEST_CASE("a kill inside of a keep leaves the slot before") {
  // The bytes of a keep of step 6 into slot 0, in the order in which they are written.
  const Memory before = with_steps({0, 4}, {0, 5});
  Memory after = before;
  after.keep(0, {{0, 6}, 9});
  const std::size_t begin = commit_at(0) + 8, end = commit_at(0) + 64;
  for (std::size_t written = begin; written <= end; ++written) {
    Memory torn = before;
    torn.set_commit(0, 0);
    std::memcpy(&torn.bytes[begin], &after.bytes[begin], written - begin);
    const Found found = torn.read();
    CHECK(found.why_not.empty());
    CHECK_FALSE(found.slots[0]);
    CHECK(found.slots[1]->stamp == Stamp{0, 5});
  }
  CHECK(after.read().slots[0]->stamp == Stamp{0, 6});
}

TEST_CASE("a damaged stamp is an empty slot, and a damaged head is refused") {
  const Memory whole = with_steps({0, 4}, {0, 5});
  for (std::size_t byte = 0; byte < 32; ++byte) {
    Memory damaged = whole;
    damaged.bytes[commit_at(1) + byte] ^= std::byte{0x10};
    const Found found = damaged.read();
    CHECK(found.slots[0]->stamp == Stamp{0, 4});
    CHECK_FALSE(found.slots[1]);
  }
  for (std::size_t byte = 0; byte < 52; ++byte) {
    Memory damaged = whole;
    damaged.bytes[byte] ^= std::byte{0x01};
    CHECK(damaged.read().why_not == "its head is damaged");
  }
  Memory other_parts = whole;
  other_parts.parts[1].count += 1;
  CHECK(other_parts.read().why_not == "its list of parts is damaged");
  Memory two = whole;
  for (std::size_t slot = 0; slot < kSlots; ++slot) two.bytes[commit_at(slot) + 12] ^= std::byte{1};
  CHECK(two.read().blank);
}

TEST_CASE("a slot whose extra would not fit is none") {
  Memory memory = with_steps({0, 4}, {0, 5});
  memory.keep(1, {{0, 6}, kExtraBytes + 1});
  CHECK_FALSE(memory.read().slots[1]);
  memory.keep(1, {{0, 6}, kExtraBytes});
  CHECK(memory.read().slots[1]);
}

TEST_CASE("another job's state is refused by name") {
  Memory memory = with_steps({0, 4}, {0, 5});
  CHECK(memory.read(kOwn.fingerprint ^ 1).why_not == "it was kept of other tensors: names, types or shapes differ");
  memory.size -= 1;
  CHECK(memory.read().why_not == "the memory has 2129919 bytes, and its head tells of 2129920");
}

TEST_CASE("the next slot is an empty one, else the older one") {
  CHECK(next_slot(nothing_kept()) == 0);
  CHECK(next_slot(with_steps({0, 4}, {0, 5}).read()) == 0);
  CHECK(next_slot(with_steps({0, 6}, {0, 5}).read()) == 1);
  CHECK(next_slot(with_steps({1, 3}, {0, 5}).read()) == 1);  // the round counts before the step
  Found found = with_steps({0, 4}, {0, 5}).read();
  found.slots[1].reset();
  CHECK(next_slot(found) == 1);
}
