// See call_check.h.
#include "strategies/comm/call_check.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "dtrain/worker_env.h"

namespace dtrain {
namespace {

constexpr std::size_t kHash = sizeof(std::uint64_t);

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

bool checks_calls() {
  const char* value = std::getenv("DTRAIN_CHECK_CALLS");
  const std::string_view text = value == nullptr ? "" : value;
  if (text == "1") return true;
  if (!text.empty() && text != "0")
    throw ConfigError(fmt::format("dtrain: DTRAIN_CHECK_CALLS is '{}'; it is 1 or 0 (default)", text));
  const char* torch = std::getenv("TORCH_DISTRIBUTED_DEBUG");
  return text.empty() && torch != nullptr && ::strcasecmp(torch, "DETAIL") == 0;
}

CallRecord record_of(const std::string& text) {
  CallRecord record{};
  const std::uint64_t hash = hash_of(text);
  std::memcpy(record.data(), &hash, kHash);
  text.copy(record.data() + kHash, record.size() - kHash - 1);
  return record;
}

std::string text_of(const CallRecord& record) { return record.data() + kHash; }

std::optional<int> first_other(const std::vector<CallRecord>& records) {
  const auto other = std::find_if(records.begin(), records.end(), [&](auto& one) { return one != records.front(); });
  if (other == records.end()) return std::nullopt;
  return static_cast<int>(other - records.begin());
}

void require_same_calls(CommGroup& group, int rank, int ranks, const std::string& text, CommGroup::Timeout timeout) {
  std::vector<CallRecord> records(static_cast<std::size_t>(ranks));
  std::vector<std::byte*> places;
  for (CallRecord& record : records) places.push_back(reinterpret_cast<std::byte*>(record.data()));
  CallRecord own = record_of(text);
  group.all_gather(reinterpret_cast<const std::byte*>(own.data()), places, own.size(), timeout);
  const auto other = first_other(records);
  if (!other) return;
  group.fail({FailureKind::mismatched, *other}, text_of(records[static_cast<std::size_t>(rank)]),
             fmt::format("rank 0 called {}, rank {} called {}", text_of(records.front()), *other,
                         text_of(records[static_cast<std::size_t>(*other)])));
}

}  // namespace dtrain
