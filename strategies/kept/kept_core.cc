#include "strategies/kept/kept_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "strategies/checkpoint/crc32c.h"

namespace dtrain::kept {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers lie in the memory as this machine has them");

constexpr std::string_view kHeadMagic = "dtrainKS";
constexpr std::uint32_t kLayoutVersion = 2;
constexpr std::size_t kFirstSlot = 256, kSlotStride = 256;
constexpr std::uint64_t kPageOfMemory = 4096;

struct HeadRecord {
  std::array<char, 8> magic;
  std::uint32_t version, rank, world_size, parts_crc;
  std::uint64_t fingerprint, value_bytes, parts;
  std::uint32_t crc, reserved;
};
static_assert(sizeof(HeadRecord) == 56 && sizeof(Part) == 32);

struct SlotRecord {
  std::uint64_t commit;
  std::uint32_t round, crc;
  std::int64_t step;
  std::uint64_t extra_bytes;
};
static_assert(sizeof(SlotRecord) == 32);

std::uint32_t record_sum(const HeadRecord& record) { return checkpoint::crc32c(0, &record, offsetof(HeadRecord, crc)); }

std::uint32_t record_sum(const SlotRecord& record) {
  const std::uint32_t first = checkpoint::crc32c(0, &record.round, sizeof record.round);
  return checkpoint::crc32c(first, &record.step, sizeof record.step + sizeof record.extra_bytes);
}

std::uint32_t parts_sum(const void* parts, std::uint64_t count) {
  return checkpoint::crc32c(0, parts, count * sizeof(Part));
}

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageOfMemory - 1) / kPageOfMemory * kPageOfMemory; }

std::optional<Slot> read_slot(ConstHead head, std::size_t number) {
  SlotRecord record;
  std::memcpy(&record, head.data() + commit_at(number), sizeof record);
  const Slot slot{{record.round, record.step}, record.extra_bytes};
  if (record.commit == 0 || record.step < 0 || record.commit != commit_word(slot.stamp)) return std::nullopt;
  if (record.crc != record_sum(record) || record.extra_bytes > kExtraBytes) return std::nullopt;
  return slot;
}

}  // namespace

std::uint64_t values_at(std::uint64_t value_bytes, std::size_t slot) {
  return kHeadBytes + slot * (whole_pages(value_bytes) + kExtraBytes);
}
std::uint64_t extra_at(std::uint64_t value_bytes, std::size_t slot) {
  return values_at(value_bytes, slot) + whole_pages(value_bytes);
}
std::uint64_t parts_at(std::uint64_t value_bytes) { return values_at(value_bytes, kSlots); }
std::uint64_t total_bytes(std::uint64_t value_bytes, std::uint64_t parts) {
  return parts_at(value_bytes) + whole_pages(parts * sizeof(Part));
}

std::size_t commit_at(std::size_t slot) { return kFirstSlot + slot * kSlotStride; }
std::uint64_t commit_word(const Stamp& stamp) { return static_cast<std::uint64_t>(stamp.step) + 1; }

void write_head(Head head, const Identity& identity) {
  HeadRecord record{};
  std::copy(kHeadMagic.begin(), kHeadMagic.end(), record.magic.begin());
  record.version = kLayoutVersion;
  record.rank = identity.rank;
  record.world_size = identity.world_size;
  record.fingerprint = identity.fingerprint;
  record.value_bytes = identity.value_bytes;
  record.parts = identity.parts.size();
  record.parts_crc = parts_sum(identity.parts.data(), identity.parts.size());
  record.crc = record_sum(record);
  std::memcpy(head.data(), &record, sizeof record);
}

void write_slot(Head head, std::size_t number, const Slot& slot) {
  SlotRecord record{0, slot.stamp.round, 0, slot.stamp.step, slot.extra_bytes};
  record.crc = record_sum(record);
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  constexpr std::size_t kAfter = sizeof record.commit;
  std::copy(bytes + kAfter, bytes + sizeof record, head.data() + commit_at(number) + kAfter);
}

Found nothing_kept() { return {"nothing is kept there", true}; }

HeadFacts read_head(ConstHead head, std::uint64_t memory_bytes, std::uint64_t fingerprint) {
  HeadRecord record;
  std::memcpy(&record, head.data(), sizeof record);
  bool committed = false;  // a head without a state may be one that is being written
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    std::uint64_t word = 0;
    std::memcpy(&word, head.data() + commit_at(slot), sizeof word);
    committed = committed || word != 0;
  }
  if (!committed) return {nothing_kept()};
  if (std::string_view(record.magic.data(), record.magic.size()) != kHeadMagic || record.crc != record_sum(record))
    return {{"its head is damaged"}};
  if (record.version != kLayoutVersion)
    return {{fmt::format("it has version {} of the layout, and this program has version {}", record.version,
                         kLayoutVersion)}};
  if (record.fingerprint != fingerprint) return {{"it was kept of other tensors: names, types or shapes differ"}};
  const std::uint64_t told = total_bytes(record.value_bytes, record.parts);
  if (memory_bytes < told)
    return {{fmt::format("the memory has {} bytes, and its head tells of {}", memory_bytes, told)}};
  Found found;
  for (std::size_t slot = 0; slot < kSlots; ++slot) found.slots[slot] = read_slot(head, slot);
  if (!found.slots[0] && !found.slots[1]) return {nothing_kept()};
  found.identity = {record.rank, record.world_size, record.fingerprint, record.value_bytes};
  return {std::move(found), record.parts, record.parts_crc};
}

Found read_parts(HeadFacts facts, const std::byte* bytes) {
  if (!facts.found.why_not.empty()) return facts.found;
  if (parts_sum(bytes, facts.parts) != facts.parts_sum) return {"its list of parts is damaged"};
  std::vector<Part>& parts = facts.found.identity.parts;
  parts.resize(facts.parts);
  if (facts.parts != 0) std::memcpy(parts.data(), bytes, facts.parts * sizeof(Part));
  return std::move(facts.found);
}

std::size_t next_slot(const Found& found) {
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (!found.slots[slot]) return slot;
  return found.slots[0]->stamp <= found.slots[1]->stamp ? 0 : 1;
}

std::optional<std::size_t> slot_of(const Found& found, const Stamp& stamp) {
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (found.slots[slot] && found.slots[slot]->stamp == stamp) return slot;
  return std::nullopt;
}

}  // namespace dtrain::kept
