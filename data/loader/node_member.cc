#include "data/loader/node_member.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "data/flow/batch_builder.h"
#include "data/parquet/seconds_since.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr std::int64_t ring_rows_min = 4096, ring_rows_max = 8192;
constexpr std::chrono::milliseconds knock_again{5}, look_again_after{100};
// Where other readers have taken the time for an answer.
constexpr std::chrono::seconds answer_min{1};

std::int64_t ring_rows_of(const RowOrder& order) {
  return std::clamp(order.spread() / 3 / 16, ring_rows_min, ring_rows_max);
}

// Some rows may be much longer than most, and footers do not always say how long strings are.
std::uint64_t tail_bytes_of(const LoaderParts& parts, std::int64_t slots, std::uint64_t least) {
  if (parts.layout->ragged.empty()) return 0;
  return least + 4 * static_cast<std::uint64_t>(slots) * parts.tail_bytes;
}

RegionSize region_size(const LoaderParts& parts, const RowOrder& order, const NodePlan& plan) {
  const std::int64_t ring = ring_rows_of(order);
  // Rows that have left wait in the ring until all ranks have passed them.
  const std::int64_t slots = order.is_whole_set() ? order.rows() : ShuffleBuffer::expected_slots(order) + ring;
  return {.members = 2 * static_cast<std::uint64_t>(plan.job.local_ranks),
          .ring_rows = static_cast<std::uint64_t>(ring),
          .slots = static_cast<std::uint64_t>(slots),
          .row_bytes = RowArena::slot_bytes(*parts.layout),
          .tail_bytes = tail_bytes_of(parts, slots, plan.limits.tails_min)};
}

std::string why_broken(const ReaderWords& reader) {
  const std::string why = reader.error;
  return "the reader of its node cannot go on" + (why.empty() ? why : ": " + why);
}

void say_alone(const NodePlan& plan, const std::string& why) {
  std::fputs(fmt::format("dtrain: {}: {}; this rank reads by itself\n", plan.who, why).c_str(), stderr);
}

}  // namespace

JoinTime JoinTime::from_now(const NodeLimits& limits) {
  return {std::chrono::steady_clock::now() + limits.join, limits.reader};
}

std::unique_ptr<NodeMember> NodeMember::join(const LoaderParts& parts, const OrderState& from, const NodePlan& plan,
                                             JoinTime& time, const StopBell& stop, std::function<bool()> asks,
                                             std::unique_ptr<NodeReader>& reader) {
  try {
    return find(parts, from, plan, time, stop, std::move(asks), reader);
  } catch (const std::system_error& error) {
    say_alone(plan, error.what());
    return nullptr;
  }
}

std::unique_ptr<NodeMember> NodeMember::find(const LoaderParts& parts, const OrderState& from, const NodePlan& plan,
                                             JoinTime& time, const StopBell& stop, std::function<bool()> asks,
                                             std::unique_ptr<NodeReader>& reader) {
  const RowOrder order = parts.order(from);
  const RegionSize size = region_size(parts, order, plan);
  const ShareLimits limits{static_cast<std::int64_t>(size.ring_rows), plan.limits.join, plan.limits.lag};
  const std::int64_t join_seconds = plan.limits.join.count();
  const NodeName name(fmt::format("{}\n{}", plan.job.name, plan.rows));
  std::string why = fmt::format("it has found no reader of its node within {} s", join_seconds);
  do {
    if (auto link = NodeLink::connect(name)) {
      if (!link->ask(plan.job.rank)) continue;
      const auto asked = std::chrono::steady_clock::now();
      const auto limit = std::max<std::chrono::milliseconds>(
          std::chrono::duration_cast<std::chrono::milliseconds>(time.answer), answer_min);
      auto received = link->receive(limit, stop);
      const auto waited = std::chrono::steady_clock::now() - asked;
      time.answer -= std::min(time.answer, waited);
      time.find_until += waited;  // for this reader, and not for one to come
      if (!received) {
        if (waited < limit) continue;  // it has gone
        why = fmt::format("the reader of its node has not answered for {} s",
                          std::chrono::duration_cast<std::chrono::seconds>(limit).count());
        break;
      }
      if (received->answer.kind == NodeAnswer::late) {
        say_alone(plan, fmt::format("it has come more than {} s after the reader of its node", join_seconds));
        return nullptr;
      }
      if (received->answer.kind == NodeAnswer::full) {
        say_alone(plan, "the process of its node's reader has no descriptor left for it; raise `ulimit -n`");
        return nullptr;
      }
      if (received->answer.kind == NodeAnswer::again) {
        why = fmt::format(
            "it has begun again with rows that the others of its node have passed, and none of them has "
            "within {} s",
            join_seconds);
        continue;
      }
      auto region = received->answer.size == size ? Region::open(std::move(received->memory), size) : std::nullopt;
      if (!region || received->answer.member >= size.members) {
        say_alone(plan, "it cannot map the memory of its node's reader");
        return nullptr;
      }
      if (!reader) parts.set->forget_footers();
      return std::unique_ptr<NodeMember>(new NodeMember(parts, from, plan, stop, std::move(asks), std::move(*link),
                                                        std::move(*region), received->answer.member));
    }
    if (reader && reader->has_ended()) {
      // An error in the files comes out of this rank's own reading.
      if (reader->words().over == ReaderWords::broken) say_alone(plan, why_broken(reader->words()));
      return nullptr;
    }
    if (reader) continue;
    auto door = NodeDoor::open(name);
    if (!door) continue;
    std::string no_region;
    auto region = Region::create(size, no_region);
    if (!region) {
      say_alone(plan, no_region);
      return nullptr;
    }
    const NodeReader::Work work{plan.who, from, plan.epoch_step, plan.ranks, plan.read_through};
    reader = std::make_unique<NodeReader>(std::move(*door), std::move(*region), limits, parts, work, stop);
  } while (stop.pause(knock_again) && std::chrono::steady_clock::now() < time.find_until);
  if (!stop) say_alone(plan, why);
  return nullptr;
}

NodeMember::NodeMember(const LoaderParts& parts, const OrderState& from, const NodePlan& plan, const StopBell& stop,
                       std::function<bool()> asks, NodeLink link, Region region, std::size_t number)
    : parts_(&parts),
      from_(from),
      epoch_step_(plan.epoch_step),
      limits_(plan.limits),
      stop_(&stop),
      asks_(std::move(asks)),
      link_(std::move(link)),
      region_(std::move(region)),
      words_(&region_.members()[number]),
      arena_(*parts.layout, region_.size().slots, parts.tail_bytes, region_.rows(), region_.tails()) {}

std::optional<int> NodeMember::ranks() const {
  const std::uint32_t ranks = region_.reader().ranks;
  return ranks == 0 ? std::nullopt : std::optional(static_cast<int>(ranks));
}

std::optional<HostBatch> NodeMember::next(const OrderState& at, const BatchShare& share, LoaderTimes& times) {
  const auto begin = std::chrono::steady_clock::now();
  slept_ = 0;
  std::uint32_t resting = MemberWords::resting;
  std::optional<HostBatch> batch;
  if (words_->state.compare_exchange_strong(resting, MemberWords::copying)) {
    const auto epochs = static_cast<std::int64_t>((at.epoch - from_.epoch) / epoch_step_);
    batch = filled(epochs * parts_->rows + at.rows_done, share);
    words_->state = MemberWords::resting;
  } else {
    over_ = fmt::format("the other ranks of its node waited {} s for it and read on without it", limits_.lag.count());
  }
  times.copy += seconds_since(begin) - slept_;
  add_times(times);
  return batch;
}

std::optional<HostBatch> NodeMember::filled(std::int64_t first, const BatchShare& share) {
  BatchBuilder batch(*parts_->tensors, *parts_->layout, share, parts_->allocate);
  for (const BatchShare::Rows& part : share.parts()) {
    if (part.begin >= part.end) continue;
    pass(first + part.begin);
    for (std::int64_t row = part.begin; row < part.end;) {
      const std::int64_t shown = await_shown(first + row, part.end - row);
      if (shown == 0) return std::nullopt;
      const auto slots = region_.ring(first + row, shown);
      batch.add(arena_, slots, row);
      row += static_cast<std::int64_t>(slots.size());
      pass(first + row);
    }
  }
  pass(first + share.batch_rows);
  return batch.finish();
}

// Rows before this one are not needed. The last member to pass what the reader waits for wakes it.
void NodeMember::pass(std::int64_t row) {
  words_->passed = row;
  const std::int64_t wanted = region_.reader().wanted;
  if (row < wanted) return;
  const auto members = region_.members();
  if (std::all_of(members.begin(), members.end(), [&](const MemberWords& one) { return one.passed >= wanted; })) {
    link_.ring();
  }
}

// How many of these rows can be read, which are all, or those of a good part of the ring. 0: none will be, by over(),
// or `stop`. Throws the reader's error.
std::int64_t NodeMember::await_shown(std::int64_t row, std::int64_t count) {
  ReaderWords& reader = region_.reader();
  const std::int64_t wanted = row + std::min(count, static_cast<std::int64_t>(region_.size().ring_rows / 4));
  const auto begin = std::chrono::steady_clock::now();
  auto still_since = begin;
  bool has_gone = false;
  std::uint64_t beat = reader.beat;
  std::int64_t shown = reader.shown;
  while (shown < wanted) {
    // A reader that has gone may have said why before.
    std::uint32_t over = reader.over;
    if (has_gone && over == ReaderWords::reads) over = ReaderWords::left;
    if (over != ReaderWords::reads || *stop_) {
      shown = reader.shown;
      if (shown > row || *stop_) break;
      if (over == ReaderWords::failed) throw DataError(reader.error);
      over_ = over == ReaderWords::left ? "the rank that read for its node has ended" : why_broken(reader);
      break;
    }
    words_->starving = asks_();
    words_->wanted = wanted;
    if (reader.rests) link_.ring();
    const bool must_sleep = reader.shown < wanted && reader.over == ReaderWords::reads;
    if (must_sleep) has_gone = !doze();
    words_->wanted = no_row;
    words_->starving = false;
    shown = reader.shown;
    const std::uint64_t before = std::exchange(beat, reader.beat);
    if (beat != before) still_since = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - still_since > limits_.reader) {
      over_ = fmt::format("the reader of its node has given no sign of life for {} s", limits_.reader.count());
      break;
    }
  }
  slept_ += seconds_since(begin);
  return *stop_ ? 0 : std::clamp<std::int64_t>(shown - row, 0, count);
}

// Until the reader rings. False: it has gone.
bool NodeMember::doze() {
  pollfd wait[] = {{link_.fd(), POLLIN, 0}, {stop_->event(), POLLIN, 0}};
  if (poll(wait, 2, static_cast<int>(look_again_after.count())) <= 0 || wait[0].revents == 0) return true;
  return link_.answered_bells();
}

// The reader works for all: its times are those of each rank.
void NodeMember::add_times(LoaderTimes& times) {
  const ReaderWords& reader = region_.reader();
  const auto add = [](double& to, double& added, std::int64_t all_ns) {
    const double all = static_cast<double>(all_ns) / 1e9;
    to += all - std::exchange(added, all);
  };
  add(times.disk, reader_times_.disk, reader.disk_ns);
  add(times.decode, reader_times_.decode, reader.decode_ns);
  add(times.copy, reader_times_.copy, reader.copy_ns);
}

}  // namespace dtrain::data
