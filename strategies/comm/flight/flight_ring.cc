// See flight_ring.h.
#include "strategies/comm/flight/flight_ring.h"

#include <algorithm>

namespace dtrain {
namespace {

// So many records of operations that are not over are passed by in search of one that can be given up.
constexpr int kPassedBy = 32;

bool is_over(const FlightRecord& record) {
  return record.serial == 0 || record.state == FlightState::done || record.state == FlightState::failed;
}

}  // namespace

void FlightCall::add(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  elements += count;
  std::size_t used = 0;
  for (std::uint32_t i = 0; i < shapes; ++i) used += dims[i];
  if (shapes == tensors++ && shapes < kShapes && used + shape.size() <= kSizes) {
    dims[shapes++] = static_cast<std::uint32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), sizes.begin() + static_cast<std::ptrdiff_t>(used));
  }
}

FlightGroup& FlightRing::add_group(std::string key, int rank, int size) {
  FlightGroup& group = groups_.emplace_back();
  group.id = ++last_group_;
  group.key = std::move(key);
  group.rank = rank;
  group.size = size;
  return group;
}

void FlightRing::remove_group(const FlightGroup& group) {
  const std::uint32_t id = group.id;
  groups_.remove_if([id](const FlightGroup& one) { return one.id == id; });
}

FlightRing::Ticket FlightRing::queued(FlightGroup& group, const FlightCall& call, bool starts, std::int64_t now) {
  const auto step = [this] { next_ = next_ + 1 == records_.size() ? 0 : next_ + 1; };
  for (int passed = 0; passed < kPassedBy && !is_over(records_[next_]); ++passed) step();
  FlightRecord& record = records_[next_];
  const Ticket ticket{++last_serial_, static_cast<std::uint32_t>(next_), call.message};
  step();
  record.call = call;
  record.serial = ticket.serial;
  record.number = call.message ? ++group.messages : ++group.queued;
  record.group = group.id;
  record.state = starts ? FlightState::running : FlightState::queued;
  record.queued_at = now;
  record.started_at = starts ? now : 0;
  record.ended_at = 0;
  return ticket;
}

FlightRecord* FlightRing::of(const Ticket& ticket) {
  FlightRecord& record = records_[ticket.slot];
  return record.serial == ticket.serial ? &record : nullptr;
}

void FlightRing::started(const Ticket& ticket, std::int64_t now) {
  FlightRecord* record = of(ticket);
  if (record == nullptr) return;
  record->state = FlightState::running;
  record->started_at = now;
}

void FlightRing::ended(FlightGroup& group, const Ticket& ticket, bool well, std::int64_t now) {
  if (well) ++(ticket.message ? group.messages_finished : group.finished);
  FlightRecord* record = of(ticket);
  if (record == nullptr) return;
  record->state = well ? FlightState::done : FlightState::failed;
  record->ended_at = now;
}

FlightRing::Snapshot FlightRing::snapshot() const {
  Snapshot all;
  all.groups.assign(groups_.begin(), groups_.end());
  all.called = last_serial_;
  for (const FlightRecord& record : records_) {
    const auto is_its = [&record](const FlightGroup& group) { return group.id == record.group; };
    if (record.serial != 0 && std::any_of(groups_.begin(), groups_.end(), is_its)) all.records.push_back(record);
  }
  std::sort(all.records.begin(), all.records.end(),
            [](const FlightRecord& a, const FlightRecord& b) { return a.serial < b.serial; });
  return all;
}

}  // namespace dtrain
