#include "test/sim/unshard_world.h"

#include <fmt/format.h>

#include <memory>

#include "test/sim/unshard_program.h"

namespace dtrain::sim {
namespace {

using Between = UnshardCore::Between;
using Reduce = UnshardCore::Reduce;

// So many ranks in sets: one after the other, or each with a distance.
struct Sets {
  int size = 1, distance = 1;
  int first(int rank) const { return distance == 1 ? rank / size * size : rank % distance; }
};

PlanSettings random_settings(std::mt19937_64& random, bool near, PlanFault fault) {
  PlanSettings settings;
  settings.fault = fault;
  settings.reduce = static_cast<Reduce>(random() % 3);
  settings.row_stays = settings.reduce == Reduce::in_order && random() % 2 == 0;
  settings.host_waits = random() % 3 == 0;
  const auto between = static_cast<Between>(random() % 3);
  for (std::uint64_t i = 2 + random() % 6; i > 0; --i) {
    const bool root = settings.groups.empty();
    const Between its = between == Between::near && !near ? Between::sharded : between;
    settings.groups.push_back(
        {root ? Between::whole : its, root || random() % 8 != 0, 1 + static_cast<std::int64_t>(random() % 8)});
  }
  settings.ahead = settings.reduce == Reduce::in_order ? 0 : static_cast<int>(random() % 4);
  if (random() % 2 == 0) settings.ahead_bytes = static_cast<std::int64_t>(random() % 16);
  return settings;
}

std::vector<PlanMeeting> meetings_of(StreamMachine& machine, int ranks, Sets sets, const char* name) {
  std::vector<PlanMeeting> found(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    if (sets.first(rank) != rank) continue;
    std::vector<StreamMachine::Id> streams;
    for (int i = 0; i < sets.size; ++i) {
      PlanMeeting& its = found[static_cast<std::size_t>(rank + i * sets.distance)];
      its.stream = machine.add_stream(rank + i * sets.distance, name);
      its.exists = true;
      streams.push_back(its.stream);
    }
    const StreamMachine::Id meeting = machine.add_meeting(std::move(streams));
    for (int i = 0; i < sets.size; ++i) found[static_cast<std::size_t>(rank + i * sets.distance)].meeting = meeting;
  }
  return found;
}

void count(const UnitCall& call, std::uint64_t& recomputed) {
  recomputed += call.recomputed ? 1 : 0;
  for (const UnitCall& each : call.calls) count(each, recomputed);
}

}  // namespace

UnshardWorld::Tally& UnshardWorld::Tally::operator+=(const Tally& more) {
  operations += more.operations;
  collectives += more.collectives;
  failures += more.failures;
  recomputed += more.recomputed;
  return *this;
}

void UnshardWorld::run() {
  std::mt19937_64 random(seed_);
  const int ranks = 1 << (1 + random() % 2);
  const int sharing = random() % 3 == 0 ? ranks / 2 : ranks, near = sharing == 4 ? 2 : 0;
  const PlanSettings settings = random_settings(random, near > 0, fault_);
  const Program program = random_program(random, settings.groups.size(), settings.reduce != Reduce::in_order);
  for (const ProgramStep& step : program.steps) {
    count(step.model, tally_.recomputed);
    tally_.failures += (step.forward_fails >= 0 ? 1 : 0) + (step.backward_fails >= 0 ? 1 : 0);
  }
  about_ = fmt::format("{} ranks, {} share, {} near, {} groups, between {}, ahead {} of {} bytes, reduce {}\n", ranks,
                       sharing, near, settings.groups.size(), static_cast<int>(settings.groups.back().between),
                       settings.ahead, settings.ahead_bytes, static_cast<int>(settings.reduce));
  StreamMachine machine(random(), ranks);
  const auto share = meetings_of(machine, ranks, {sharing}, "sharing");
  const auto nears = near > 0 ? meetings_of(machine, ranks, {near}, "near") : std::vector<PlanMeeting>(share.size());
  const auto replicas = sharing < ranks ? meetings_of(machine, ranks, {ranks / sharing, sharing}, "replicas")
                                        : std::vector<PlanMeeting>(share.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    UnshardRank one(machine, rank, settings, {share[r], nears[r], replicas[r]});
    std::mt19937_64 own(random());
    run_program(program, one, settings.groups.size(), own);
  }
  const auto tell = [&] {
    tally_.operations = machine.done();
    tally_.collectives = machine.meetings_held();
    trace_ = machine.trace();
  };
  try {
    machine.run();
  } catch (...) {
    tell();
    throw;
  }
  tell();
}

}  // namespace dtrain::sim
