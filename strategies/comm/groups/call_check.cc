// See call_check.h.
#include "strategies/comm/groups/call_check.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "strategies/comm/base/env_flag.h"

namespace dtrain {
namespace {

constexpr std::size_t kHash = sizeof(std::size_t);

}  // namespace

bool checks_calls() {
  const auto set = env_flag(process_env(), "DTRAIN_CHECK_CALLS", "1 or 0 (default)");
  return set ? *set : ::strcasecmp(process_env()("TORCH_DISTRIBUTED_DEBUG").value_or("").c_str(), "DETAIL") == 0;
}

CallRecord record_of(const std::string& text, const CallOrigin& origin) {
  CallRecord record{};
  const std::size_t hash = std::hash<std::string>{}(text);  // all ranks are one build of one program
  std::memcpy(record.data(), &hash, kHash);
  const std::string from = origin.text();
  const std::string shown = from.empty() ? text : fmt::format("{} ({})", text, from);
  shown.copy(record.data() + kHash, record.size() - kHash - 1);
  return record;
}

std::string text_of(const CallRecord& record) { return record.data() + kHash; }

std::optional<int> first_other(const std::vector<CallRecord>& records) {
  const auto differs = [&](const CallRecord& one) {
    return std::memcmp(one.data(), records.front().data(), kHash) != 0;
  };
  const auto other = std::find_if(records.begin(), records.end(), differs);
  if (other == records.end()) return std::nullopt;
  return static_cast<int>(other - records.begin());
}

void require_same_calls(CommGroup& group, int rank, int ranks, const std::string& text, CommGroup::Timeout timeout) {
  std::vector<CallRecord> records(static_cast<std::size_t>(ranks));
  std::vector<std::byte*> places;
  for (CallRecord& record : records) places.push_back(reinterpret_cast<std::byte*>(record.data()));
  CallRecord own = record_of(text, CallOrigin::current());
  const CallsOf its(CallOrigin::Kind::call_check);
  group.all_gather(reinterpret_cast<const std::byte*>(own.data()), places, own.size(), timeout);
  const auto other = first_other(records);
  if (!other) return;
  group.fail({FailureKind::mismatched, *other}, text_of(records[static_cast<std::size_t>(rank)]),
             fmt::format("rank 0 called {}, rank {} called {}", text_of(records.front()), *other,
                         text_of(records[static_cast<std::size_t>(*other)])));
}

}  // namespace dtrain
