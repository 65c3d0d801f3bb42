#include "strategies/kept/kept_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "strategies/checkpoint/crc32c.h"

namespace dtrain::kept {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers lie in the memory as this machine has them");

constexpr std::string_view kHeadMagic = "dtrainKS";
constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::size_t kFirstSlot = 256, kSlotStride = 256;
constexpr std::uint64_t kPageOfMemory = 4096;

struct HeadRecord {
  std::array<char, 8> magic;
  std::uint32_t version, rank, world_size, reserved;
  std::uint64_t fingerprint, value_bytes;
  std::uint32_t crc, reserved_too;
};
static_assert(sizeof(HeadRecord) == 48);

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

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageOfMemory - 1) / kPageOfMemory * kPageOfMemory; }

std::optional<Slot> read_slot(ConstHead head, std::size_t number) {
  SlotRecord record;
  std::memcpy(&record, head.data() + commit_at(number), sizeof record);
  const Slot slot{{record.round, record.step}, record.extra_bytes};
  if (record.commit == 0 || record.step < 0 || record.commit != commit_word(slot.stamp)) return std::nullopt;
  if (record.crc != record_sum(record) || record.extra_bytes > kExtraBytes) return std::nullopt;
  return slot;
}

std::vector<Stamp> stamps_of(const Found& found) {
  std::vector<Stamp> stamps;
  for (const auto& slot : found.slots)
    if (slot) stamps.push_back(slot->stamp);
  std::sort(stamps.begin(), stamps.end());
  return stamps;
}

// "has steps 4 and 5"
std::string steps_text(const Found& found) {
  std::vector<std::int64_t> steps;
  for (const Stamp& stamp : stamps_of(found)) steps.push_back(stamp.step);
  if (steps.empty()) return "has none";
  return fmt::format("has step{} {}", steps.size() == 1 ? "" : "s", fmt::join(steps, " and "));
}

}  // namespace

std::uint64_t values_at(std::uint64_t value_bytes, std::size_t slot) {
  return kHeadBytes + slot * (whole_pages(value_bytes) + kExtraBytes);
}
std::uint64_t extra_at(std::uint64_t value_bytes, std::size_t slot) {
  return values_at(value_bytes, slot) + whole_pages(value_bytes);
}
std::uint64_t total_bytes(std::uint64_t value_bytes) { return values_at(value_bytes, kSlots); }

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

Found read_head(ConstHead head, std::uint64_t memory_bytes, const Identity& own) {
  HeadRecord record;
  std::memcpy(&record, head.data(), sizeof record);
  bool committed = false;  // a head without a state may be one that is being written
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    std::uint64_t word = 0;
    std::memcpy(&word, head.data() + commit_at(slot), sizeof word);
    committed = committed || word != 0;
  }
  if (!committed) return nothing_kept();
  if (std::string_view(record.magic.data(), record.magic.size()) != kHeadMagic || record.crc != record_sum(record))
    return {"its head is damaged"};
  if (record.version != kLayoutVersion)
    return {fmt::format("it has version {} of the layout, and this program has version {}", record.version,
                        kLayoutVersion)};
  if (record.world_size != own.world_size)
    return {
        fmt::format("it was kept with world size {}, and now the world size is {}", record.world_size, own.world_size)};
  if (record.rank != own.rank)
    return {fmt::format("it was kept by rank {}, and now it is rank {}", record.rank, own.rank)};
  if (record.fingerprint != own.fingerprint || record.value_bytes != own.value_bytes)
    return {"it was kept of other tensors: names, types, shapes or this rank's parts differ"};
  if (memory_bytes < total_bytes(record.value_bytes))
    return {fmt::format("the memory has {} bytes, and its head tells of {}", memory_bytes,
                        total_bytes(record.value_bytes))};
  Found found;
  for (std::size_t slot = 0; slot < kSlots; ++slot) found.slots[slot] = read_slot(head, slot);
  if (!found.slots[0] && !found.slots[1]) return nothing_kept();
  return found;
}

std::size_t next_slot(const Found& found) {
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (!found.slots[slot]) return slot;
  return found.slots[0]->stamp <= found.slots[1]->stamp ? 0 : 1;
}

std::string found_text(const Found& found) {
  std::string text = found.blank ? "blank" : "there";
  for (const auto& slot : found.slots)
    text += slot ? fmt::format(" {} {} {}", slot->stamp.round, slot->stamp.step, slot->extra_bytes) : " - - -";
  return text + "\n" + found.why_not;
}

Found parse_found(const std::string& text) {
  Found found;
  const std::size_t line = text.find('\n');
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line;) {
    const std::size_t end = std::min(text.find(' ', at), line);
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  found.blank = words.at(0) == "blank";
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const auto word = [&](std::size_t place) -> const std::string& { return words.at(1 + 3 * slot + place); };
    if (word(0) == "-") continue;
    found.slots[slot] =
        Slot{{static_cast<std::uint32_t>(std::stoul(word(0))), std::stoll(word(1))}, std::stoull(word(2))};
  }
  found.why_not = text.substr(line + 1);
  return found;
}

Choice choose(const std::vector<Found>& of_ranks) {
  const auto blank = [](const Found& found) { return found.blank; };
  if (std::all_of(of_ranks.begin(), of_ranks.end(), blank)) return {};
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    if (!of_ranks[rank].why_not.empty())
      return {{}, fmt::format("the kept state cannot be used: rank {}: {}", rank, of_ranks[rank].why_not)};
  for (auto stamps = stamps_of(of_ranks[0]); !stamps.empty(); stamps.pop_back()) {
    const auto has_it = [&](const Found& found) {
      const auto its = stamps_of(found);
      return std::find(its.begin(), its.end(), stamps.back()) != its.end();
    };
    if (std::all_of(of_ranks.begin(), of_ranks.end(), has_it)) return {stamps.back(), {}};
  }
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank)
    if (stamps_of(of_ranks[rank]) != stamps_of(of_ranks[0]))
      return {{},
              fmt::format("the kept state cannot be used: rank 0 {}, rank {} {}", steps_text(of_ranks[0]), rank,
                          steps_text(of_ranks[rank]))};
  return {};
}

}  // namespace dtrain::kept
