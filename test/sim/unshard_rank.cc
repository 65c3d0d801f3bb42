#include "test/sim/unshard_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dtrain::sim {
namespace {

constexpr int kReductionsBeforeOneIsLeftOut = 5;

[[noreturn]] void broken(const std::string& what, std::size_t group) {
  throw std::runtime_error(fmt::format("{}: group {}", what, group));
}

}  // namespace

UnshardRank::UnshardRank(StreamMachine& machine, int rank, const PlanSettings& settings, const PlanMeetings& meetings)
    : machine_(machine),
      rank_(rank),
      settings_(settings),
      meetings_(meetings),
      core_(settings.groups, settings.ahead, settings.reduce,
            settings.fault == PlanFault::too_far_ahead ? UnshardCore::kAnyBytes : settings.ahead_bytes,
            settings.row_stays || settings.reduce == UnshardCore::Reduce::at_end ? 2 : 1),
      streams_{machine.add_stream(rank, "compute"), machine.add_stream(rank, "gather"),
               machine.add_stream(rank, "reduce")} {
  for (std::size_t i = 0; i < core_.events(); ++i) events_.push_back(machine_.add_event());
  for (std::size_t g = 0; g < settings_.groups.size(); ++g) {
    groups_.push_back({machine_.add_memory("part"), machine_.add_memory("average")});
    machine_.write(compute(), groups_[g].part, version_, {"first values", g});
  }
}

UnshardRank::Id UnshardRank::take(Pool& pool, const char* name) {
  if (pool.empty()) return machine_.add_memory(name);
  const Id last = pool.back();
  pool.pop_back();
  return last;
}

void UnshardRank::give_back(Pool& pool, Id& memory) {
  if (memory != kNothing) pool.push_back(std::exchange(memory, kNothing));
}

void UnshardRank::use(std::size_t group) {
  const One& one = groups_[group];
  if (!one.usable) broken("used while it is not whole", group);
  machine_.read(compute(), one.whole, version_, {"use", group});
}

void UnshardRank::gradient(std::size_t group) {
  One& one = groups_[group];
  if (settings_.row_stays) carry_out(core_.before_gradient(group));
  if (one.row == kNothing) one.row = take(computes_, "row");
  one.in_row = ++written_;
  one.unreduced = true;
  machine_.write(compute(), one.row, one.in_row, {"gradient", group});
}

void UnshardRank::update() {
  carry_out(core_.free_all());
  ++version_;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    One& one = groups_[g];
    if (one.in_average > 0) machine_.read(compute(), one.average, std::exchange(one.in_average, 0), {"optimizer", g});
    machine_.write(compute(), one.part, version_, {"optimizer", g});
    one.unreduced = false;
    if (!settings_.row_stays) give_back(computes_, one.row);
  }
  carry_out(core_.updated());
}

void UnshardRank::require_reduced() const {
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g].unreduced && settings_.groups[g].trains) broken("a gradient was not reduced", g);
}

void UnshardRank::require_free() const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const One& one = groups_[g];
    if (one.whole != kNothing || one.near != kNothing) broken("is not free at the end", g);
    if (one.moving != kNothing) broken("its row is not free at the end", g);
  }
}

// What is gathered ahead, between two calls.
void UnshardRank::require_ahead() {
  if (holds_) return;
  int count = 0;
  std::int64_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].whole == kNothing || groups_[g].usable) continue;
    ++count;
    bytes += settings_.groups[g].bytes;
  }
  if (count > settings_.ahead) throw std::runtime_error(fmt::format("{} groups are gathered ahead", count));
  if (bytes > settings_.ahead_bytes) throw std::runtime_error(fmt::format("{} bytes are gathered ahead", bytes));
}

UnshardRank::Action UnshardRank::planted(Action action) const {
  constexpr auto kNone = UnshardCore::kNoEvent;
  const auto updated = static_cast<UnshardCore::Event>(core_.events() - 1);
  switch (action.what) {
    case Do::wait:
      if (has(PlanFault::use_before_gather)) action.waits = kNone;
      break;
    case Do::gather:
      if (has(PlanFault::gather_before_left)) action.waits = updated;
      if (has(PlanFault::values_too_early) && action.waits == updated) action.waits = kNone;
      if (has(PlanFault::not_gathered)) action.records = kNone;
      break;
    case Do::reduce:
      if (has(PlanFault::reduce_before_filled)) action.waits = kNone;
      break;
    case Do::wait_reduced:
      if (has(PlanFault::average_too_late)) action.waits = kNone;
      break;
    case Do::free:
      if (has(PlanFault::left_too_early)) action.records = kNone;
      break;
    default:
      break;
  }
  return action;
}

// With other_order, one rank's reduction comes after what it gathers next.
bool UnshardRank::is_put_off(const Action& action) {
  if (!has(PlanFault::other_order) || rank_ != 0) return false;
  if (action.what == Do::reduce) {
    put_off_.push_back(action);
    return true;
  }
  if (action.what == Do::gather) carry_out_one(action);
  if (action.what != Do::gather && action.what != Do::average) return false;
  for (const Action& each : std::exchange(put_off_, {})) carry_out_one(each);
  return action.what == Do::gather;
}

void UnshardRank::carry_out(const UnshardCore::Actions& actions) {
  for (const Action& each : actions) {
    const Action action = planted(each);
    if (is_put_off(action)) continue;
    carry_out_one(action);
    if (action.what != Do::wait) continue;
    const UnshardCore::Event left = action.waits + 1;
    if (has(PlanFault::left_too_early)) machine_.record(compute(), event(left), {"left", action.group});
    if (has(PlanFault::freed_in_use)) carry_out_one({Do::free, UnshardCore::Stream::compute, left, left, action.group});
  }
  require_ahead();
}

void UnshardRank::carry_out_one(const Action& action) {
  constexpr const char* kNames[] = {"updated", "gather", "wait",    "free",        "share_near",
                                    "filled",  "reduce", "average", "wait_reduced"};
  const Label label{kNames[static_cast<std::size_t>(action.what)], action.group};
  const Id its = stream(action.stream);
  if (action.waits != UnshardCore::kNoEvent) machine_.wait(its, event(action.waits), label);
  act(action, groups_[action.group]);
  if (action.records != UnshardCore::kNoEvent) machine_.record(its, event(action.records), label);
  if (settings_.host_waits && (action.what == Do::wait || action.what == Do::average)) machine_.drain(its);
}

void UnshardRank::act(const Action& action, One& one) {
  switch (action.what) {
    case Do::gather:
      return gather(action, one);
    case Do::wait:
      if (one.whole == kNothing) broken("waited for, and not gathered", action.group);
      give_back(computes_, one.near);
      one.usable = true;
      return;
    case Do::free:
      if (one.whole == kNothing && one.near == kNothing) broken("freed, and not gathered", action.group);
      one.usable = false;
      give_back(gathers_, one.whole);
      give_back(computes_, one.near);
      return;
    case Do::share_near:
      return share_near(action, one);
    case Do::reduce:
      return reduce(action, one);
    case Do::average:
      return average(action, one);
    case Do::wait_reduced:
      if (one.moving == kNothing && !settings_.row_stays && !has(PlanFault::row_too_early))
        broken("no row is being reduced", action.group);
      if (!settings_.row_stays) give_back(computes_, one.moving);
      one.moving = kNothing;
      return;
    case Do::updated:
    case Do::filled:
      return;
  }
}

// The stream of the collectives waits for `from` and not the other way. Other ranks read the input until all are done,
// and may write the output as soon as all are there. Returns the event at its end.
UnshardRank::Id UnshardRank::launch(Id from, const PlanMeeting& meeting, Label label, Id input, std::uint64_t value,
                                    Id output) {
  const Id begun = machine_.add_event(), ended = machine_.add_event();
  machine_.record(from, begun, label);
  machine_.wait(meeting.stream, begun, label);
  for (int i = 0; i < 2; ++i) {
    machine_.read(meeting.stream, input, value, label);
    machine_.write(meeting.stream, output, value, label);
    if (i == 0) machine_.meet(meeting.stream, meeting.meeting, label);
  }
  machine_.record(meeting.stream, ended, label);
  return ended;
}

void UnshardRank::gather(const Action& action, One& one) {
  if (one.whole != kNothing) broken("gathered twice", action.group);
  one.whole = take(gathers_, "whole");
  const bool near = one.near != kNothing;
  const Id its = stream(action.stream);
  const Label label{near ? "near gather" : "gather", action.group};
  machine_.wait(
      its,
      launch(its, near ? meetings_.near : meetings_.sharing, label, near ? one.near : one.part, version_, one.whole),
      label);
}

void UnshardRank::share_near(const Action& action, One& one) {
  if (one.whole == kNothing) broken("shared near, and not whole", action.group);
  one.near = take(computes_, "near");
  machine_.read(compute(), one.whole, version_, {"share_near", action.group});
  machine_.write(compute(), one.near, version_, {"share_near", action.group});
  one.usable = false;
  give_back(gathers_, one.whole);
}

void UnshardRank::reduce(const Action& action, One& one) {
  if (one.moving != kNothing) broken("reduced twice at a time", action.group);
  // What no gradient came for is zeros, which the computation writes.
  if (one.row == kNothing || !one.unreduced) {
    if (one.row == kNothing) one.row = take(computes_, "row");
    one.in_row = ++written_;
    machine_.write(stream(action.stream), one.row, one.in_row, {"zeros", action.group});
  }
  one.unreduced = false;
  one.moving = one.row;
  one.in_piece = one.in_row;
  one.piece = take(reduces_, "piece");
  if (has(PlanFault::left_out) && rank_ == 0 && ++reductions_ > kReductionsBeforeOneIsLeftOut) {
    machine_.write(stream(action.stream), one.piece, one.in_row, {"left out", action.group});
    one.reduced = kNothing;
  } else {
    one.reduced =
        launch(stream(action.stream), meetings_.sharing, {"reduce", action.group}, one.row, one.in_row, one.piece);
  }
  if (!settings_.row_stays) one.row = kNothing;
  if (has(PlanFault::row_too_early)) give_back(computes_, one.moving);
}

void UnshardRank::average(const Action& action, One& one) {
  if (one.piece == kNothing) broken("averaged, and not reduced", action.group);
  const Id its = stream(action.stream);
  const Label label{"average", action.group};
  if (one.reduced != kNothing) machine_.wait(its, one.reduced, label);
  if (meetings_.replicas.exists) {
    Id all = take(reduces_, "all");
    machine_.wait(its, launch(its, meetings_.replicas, label, one.piece, one.in_piece, all), label);
    give_back(reduces_, one.piece);
    one.piece = all;
  }
  if (one.in_average > 0) machine_.read(its, one.average, one.in_average, label);
  one.in_average = ++written_;
  machine_.write(its, one.average, one.in_average, label);
  give_back(reduces_, one.piece);
}

}  // namespace dtrain::sim
