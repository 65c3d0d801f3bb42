// See negotiation_core.h. What is said by a bit is said so that AND keeps it: a set bit is what all ranks must agree
// to.
#include "strategies/horovod/negotiation_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dtrain::hvd {
namespace {

constexpr std::size_t kBits = 64;
constexpr std::size_t kNamesSaid = 5;  // in a line about many tensors

std::string seconds(Negotiation::Duration duration) {
  return fmt::format("{} s", std::chrono::duration<double>(duration).count());
}

std::string some_of(const std::vector<std::string>& names) {
  const std::size_t said = std::min(names.size(), kNamesSaid);
  std::string text = fmt::format("'{}'", fmt::join(names.begin(), names.begin() + static_cast<long>(said), "', '"));
  if (said < names.size()) text += fmt::format(" and {} more", names.size() - said);
  return text;
}

}  // namespace

// Bits: two of the rank, then for each rank that it stays and that it has not joined, then for each slot that this rank
// has its tensor and that the slot may stay.
struct Negotiation::Layout {
  std::size_t ranks;
  std::size_t slots;

  static constexpr std::size_t no_requests = 0;
  static constexpr std::size_t within_limit = 1;
  std::size_t stays(std::size_t rank) const { return 2 + rank; }
  std::size_t unjoined(std::size_t rank) const { return 2 + ranks + rank; }
  std::size_t hit(std::size_t slot) const { return 2 + 2 * ranks + slot; }
  std::size_t valid(std::size_t slot) const { return 2 + 2 * ranks + slots + slot; }
  std::size_t words() const { return (2 + 2 * ranks + 2 * slots + kBits - 1) / kBits; }

  static bool get(std::span<const std::uint64_t> words, std::size_t bit) {
    return (words[bit / kBits] >> (bit % kBits) & 1U) != 0;
  }
  static void set(std::vector<std::uint64_t>& words, std::size_t bit) {
    words[bit / kBits] |= std::uint64_t{1} << (bit % kBits);
  }
  static void clear(std::vector<std::uint64_t>& words, std::size_t bit) {
    words[bit / kBits] &= ~(std::uint64_t{1} << (bit % kBits));
  }
};

Negotiation::Negotiation(int rank, int ranks, const Limits& limits, RankNames names)
    : rank_(rank),
      ranks_(ranks),
      limits_(limits),
      names_(std::move(names)),
      cache_(limits.cache_capacity),
      joined_(static_cast<std::size_t>(ranks), false) {}

void Negotiation::submit(const Request& request, Moment now) {
  pending_[request.name] = {request, now, submitted_++};
  if (const auto slot = cache_.find(request.name)) note_pass(*slot);
}

void Negotiation::note_pass(std::size_t slot) {
  pass_of_.resize(cache_.slots());
  if (pass_of_[slot] == pass_) {
    ++pass_;
    of_pass_ = 0;
  }
  pass_of_[slot] = pass_;
  ++of_pass_;
  is_new_ = true;
}

// A tensor that waits for long is taken out of the cache and goes by requests, so that all know who has it.
Negotiation::Way Negotiation::way_of(const Pending& pending) const {
  if (pending.sent) return Way::sent;
  const auto slot = cache_.find(pending.request.name);
  if (!slot) return Way::request;
  const bool same = *cache_.at(*slot) == pending.request;
  const bool stalls = reached(pending.since, limits_.stall_warning) || reached(pending.since, limits_.stall_failure);
  return same && !stalls ? Way::bit : Way::change;
}

bool Negotiation::past_limit() const {
  const auto past = [this](const auto& each) { return reached(each.since, limits_.stall_failure); };
  return std::any_of(table_.begin(), table_.end(), past) ||
         std::any_of(held_.begin(), held_.end(), [&](const auto& group) { return past(group.second); });
}

std::vector<std::uint64_t> Negotiation::words(Moment now) {
  moment_ = now;
  is_new_ = false;
  const auto rank = static_cast<std::size_t>(rank_);
  const Layout layout{static_cast<std::size_t>(ranks_), cache_.slots()};
  std::vector<std::uint64_t> words(layout.words(), ~std::uint64_t{0});
  if (past_limit()) Layout::clear(words, Layout::within_limit);
  if (leaves_) Layout::clear(words, layout.stays(rank));
  if (joined_here_) Layout::clear(words, layout.unjoined(rank));
  for (std::size_t slot = 0; slot < layout.slots && !joined_here_; ++slot) Layout::clear(words, layout.hit(slot));
  for (const auto& [name, pending] : pending_) {
    const Way way = way_of(pending);
    if (way == Way::bit) Layout::set(words, layout.hit(*cache_.find(name)));
    if (way == Way::change) Layout::clear(words, layout.valid(*cache_.find(name)));
    if (way == Way::change || way == Way::request) Layout::clear(words, Layout::no_requests);
  }
  return words;
}

bool Negotiation::absorb_words(std::span<const std::uint64_t> agreed) {
  const Layout layout{static_cast<std::size_t>(ranks_), cache_.slots()};
  const bool joined = absorb_ranks(agreed, layout);
  if (!outcome_.left.empty()) return false;
  if (!Layout::get(agreed, Layout::within_limit)) {
    fail_past_limit();
    if (outcome_.failure) return false;
  }
  if (!outcome_.all_joined) absorb_slots(agreed, layout);
  // After the slots, which it may give to others.
  if (joined && !outcome_.all_joined) finish_complete();
  return !Layout::get(agreed, Layout::no_requests);
}

// True: some have joined.
bool Negotiation::absorb_ranks(std::span<const std::uint64_t> agreed, const Layout& layout) {
  std::optional<int> last;
  for (std::size_t r = 0; r < layout.ranks; ++r) {
    if (!Layout::get(agreed, layout.stays(r))) outcome_.left.push_back(static_cast<int>(r));
    if (Layout::get(agreed, layout.unjoined(r)) || joined_[r]) continue;
    joined_[r] = true;
    last = static_cast<int>(r);
  }
  if (last && std::all_of(joined_.begin(), joined_.end(), [](bool joined) { return joined; })) {
    outcome_.all_joined = last;
    joined_.assign(layout.ranks, false);
    joined_here_ = false;
  }
  return last.has_value();
}

void Negotiation::absorb_slots(std::span<const std::uint64_t> agreed, const Layout& layout) {
  for (std::size_t slot = 0; slot < layout.slots; ++slot) {
    if (!cache_.at(slot)) continue;
    if (!Layout::get(agreed, layout.valid(slot))) {
      cache_.drop(slot);
    } else if (Layout::get(agreed, layout.hit(slot))) {
      cache_.use(slot);
      agree(*cache_.at(slot));
    }
  }
}

std::vector<Asked> Negotiation::requests() {
  std::map<std::uint64_t, Pending*> in_order;
  for (auto& [name, pending] : pending_) {
    if (way_of(pending) == Way::request) in_order[pending.order] = &pending;
  }
  std::vector<Asked> asked;
  for (const auto& [order, pending] : in_order) {
    pending->sent = true;
    asked.push_back({pending->request, std::chrono::duration_cast<Duration>(moment_ - pending->since)});
  }
  return asked;
}

void Negotiation::absorb_requests(const std::vector<std::vector<Asked>>& asked) {
  for (std::size_t r = 0; r < asked.size(); ++r) {
    for (const Asked& each : asked[r]) absorb_request(static_cast<int>(r), each);
  }
  if (!outcome_.failure) finish_complete();
}

void Negotiation::absorb_request(int rank, const Asked& asked) {
  const Request& request = asked.request;
  const auto [known, is_new] = by_name_.try_emplace(request.name, table_.end());
  if (is_new) {
    known->second = table_.insert(table_.end(), Entry{request, std::vector<bool>(static_cast<std::size_t>(ranks_)),
                                                      moment_ - asked.waited, Moment{}});
  }
  Entry& entry = *known->second;
  if (!(entry.request == request)) {
    std::vector<int> others;
    for (int r = 0; r < ranks_; ++r) {
      if (entry.has[static_cast<std::size_t>(r)]) others.push_back(r);
    }
    fail(FailureKind::mismatched, rank,
         fmt::format("tensor '{}' is not the same on all ranks: {} on {}, but {} on rank {}", request.name,
                     describe(entry.request), ranks_text(others), describe(request), names_.of(rank)));
  }
  entry.has[static_cast<std::size_t>(rank)] = true;
}

std::vector<int> Negotiation::missing(const Entry& entry) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < joined_.size(); ++r) {
    if (!entry.has[r] && !joined_[r]) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

void Negotiation::finish_complete() {
  for (auto entry = table_.begin(); entry != table_.end();) {
    if (!missing(*entry).empty()) {
      ++entry;
      continue;
    }
    const Request request = std::move(entry->request);
    by_name_.erase(request.name);
    entry = table_.erase(entry);
    cache_.put(request);
    agree(request);
  }
}

void Negotiation::agree(const Request& request) {
  const auto joined = std::find(joined_.begin(), joined_.end(), true);
  if (request.op == "adasum" && joined != joined_.end()) {
    const auto rank = static_cast<int>(joined - joined_.begin());
    fail(FailureKind::mismatched, rank,
         fmt::format("tensor '{}': adasum cannot go on after rank {} has joined", request.name, names_.of(rank)));
  }
  pending_.erase(request.name);
  if (request.group.empty()) {
    outcome_.ready.push_back(request);
    return;
  }
  const auto [group, is_new] = held_.try_emplace(request.group, Held{{}, moment_, Moment{}});
  std::vector<Request>& requests = group->second.requests;
  requests.push_back(request);
  if (group->second.missing() > 0) return;
  std::move(requests.begin(), requests.end(), std::back_inserter(outcome_.ready));
  held_.erase(group);
}

void Negotiation::fail(FailureKind kind, int rank, const std::string& text) {
  if (!outcome_.failure) outcome_.failure = CollectiveError(kind, names_.of(rank), "dtrain: " + names_.prefix() + text);
}

std::string Negotiation::ranks_text(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = names_.of(rank);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

Negotiation::Outcome Negotiation::outcome() { return std::exchange(outcome_, {}); }

void Negotiation::fail_past_limit() {
  const std::string time = seconds(limits_.stall_failure);
  // What waited for ranks that have joined just now is ready.
  const auto oldest = std::find_if(table_.begin(), table_.end(), [this](auto& each) { return !missing(each).empty(); });
  if (oldest != table_.end()) {
    const std::vector<int> ranks = missing(*oldest);
    fail(FailureKind::timed_out, ranks.front(),
         fmt::format("tensor '{}' was not submitted by {} for {}", oldest->request.name, ranks_text(ranks), time));
  } else if (!held_.empty()) {
    const auto& [name, group] = *held_.begin();
    fail(FailureKind::timed_out, 0,
         fmt::format("group '{}' waits for {} of its tensors for {}", name, group.missing(), time));
  }
}

std::optional<std::string> Negotiation::stalled() {
  const auto is_due = [this](auto& each) {
    if (!reached(each.since, limits_.stall_warning)) return false;
    if (each.warned != Moment{} && !reached(each.warned, limits_.stall_warning)) return false;
    each.warned = moment_;
    return true;
  };
  std::map<std::vector<int>, std::vector<std::string>> names;
  std::vector<std::string> lines;
  lines.reserve(table_.size() + held_.size());
  for (Entry& entry : table_) {
    if (is_due(entry)) names[missing(entry)].push_back(entry.request.name);
  }
  for (const auto& [ranks, tensors] : names)
    lines.push_back(
        fmt::format("{} ha{} not submitted {}", ranks_text(ranks), ranks.size() == 1 ? "s" : "ve", some_of(tensors)));
  for (auto& [name, group] : held_) {
    if (!is_due(group)) continue;
    lines.push_back(fmt::format("group '{}' waits for {} of its tensors", name, group.missing()));
  }
  if (lines.empty()) return std::nullopt;
  return fmt::format("{}for {} or more, {}", names_.prefix(), seconds(limits_.stall_warning), fmt::join(lines, "; "));
}

}  // namespace dtrain::hvd
