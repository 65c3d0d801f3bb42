#include "cli/flight/flight_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

// A group as its ranks' files have it: a file and its part, by the rank in the group.
struct Seat {
  const FlightReading* file;
  const FlightPart* part;
};
struct StoryGroup {
  std::string name;
  int size = 1;
  std::map<int, Seat> seats;
};
using Groups = std::map<std::string, StoryGroup>;

std::string part_name(const FlightPart& part) { return part.name.empty() ? part.key : part.name; }

Groups groups_of(const std::vector<FlightReading>& files) {
  Groups groups;
  for (const FlightReading& file : files)
    for (const FlightPart& part : file.parts) {
      StoryGroup& group = groups[part.key];
      if (group.name.empty() || group.name == part.key) group.name = part_name(part);
      group.size = std::max(group.size, part.size);
      group.seats[part.rank] = {&file, &part};
    }
  return groups;
}

const FlightOp* collective(const Seat& seat, std::uint64_t number) {
  const auto& ops = seat.file->ops;
  const auto found = std::find_if(ops.begin(), ops.end(), [&](const FlightOp& op) {
    return op.group == seat.part->id && !op.message && op.number == number;
  });
  return found == ops.end() ? nullptr : &*found;
}

// What is known of a collective whose record is gone.
FlightOp forgotten(std::uint64_t number) {
  FlightOp op;
  op.op = "collective";
  op.number = number;
  return op;
}

std::int64_t since(const FlightReading& file, std::int64_t moment) {
  return moment == 0 ? 0 : std::max<std::int64_t>(0, file.now_ns - moment);
}

FlightWait wait_of(const FlightReading& file, const FlightOp& op, const StoryGroup& group) {
  const std::int64_t began = op.started_ns != 0 ? op.started_ns : op.queued_ns;
  const std::int64_t until = op.ended_ns != 0 ? op.ended_ns : file.now_ns;
  const auto peer = op.message ? group.seats.find(op.peer) : group.seats.end();
  const std::int64_t waited = began == 0 ? 0 : std::max<std::int64_t>(0, until - began);
  return {file.rank, peer == group.seats.end() ? -1 : peer->second.file->rank, op, group.name, waited};
}

// Whether the rank is in it: it runs, or it is the collective in which the group failed, or a message that waited when
// the group of the cause did. One that does not fit did not wait.
bool is_in(const FlightReading& file, const FlightOp& op) {
  if (op.state == FlightOp::State::running) return true;
  if (op.state != FlightOp::State::failed) return false;
  const bool waited = op.group == file.cause_group && file.cause != "mismatched";
  return op.message ? waited : op.number == file.part(op.group)->finished + 1;
}

// The receive whose message did not fit: of the rank that is to blame the first operation that failed.
const FlightOp* misfit(const Seat& seat) {
  const FlightReading& file = *seat.file;
  if (file.cause != "mismatched" || file.cause_group != seat.part->id || file.cause_rank != seat.part->rank)
    return nullptr;
  const FlightOp* first = nullptr;
  for (const FlightOp& op : file.ops)
    if (op.group == seat.part->id && op.state == FlightOp::State::failed &&
        (first == nullptr || op.ended_ns < first->ended_ns))
      first = &op;
  return first != nullptr && first->op == "recv" ? first : nullptr;
}

std::vector<FlightWait> doing(const FlightReading& file, const Groups& groups) {
  std::vector<FlightWait> all;
  for (const FlightOp& op : file.ops)
    if (is_in(file, op)) all.push_back(wait_of(file, op, groups.at(file.part(op.group)->key)));
  return all;
}

// What has to be the same on all ranks. Of some operations ranks have tensors of different sizes, or none.
bool fits(const FlightOp& a, const FlightOp& b) {
  if (a.op == "collective" || b.op == "collective") return true;
  if (a.op != b.op || a.root != b.root || a.reduction != b.reduction) return false;
  const bool uneven = a.op == "gather" || a.op.starts_with("all_to_all");
  return uneven || (a.type == b.type && a.elements == b.elements);
}

FlightAbsent absent_of(const Seat& seat, const Groups& groups) {
  FlightAbsent one;
  one.rank = seat.file->rank;
  one.called = seat.part->queued;
  one.doing = doing(*seat.file, groups);
  if (one.called == 0) return one;
  const FlightOp* last = collective(seat, one.called);
  if (last == nullptr) return one;
  one.last = *last;
  one.ago_ns = since(*seat.file, last->ended_ns);
  return one;
}

void tell_next(FlightGroupStory& story, const StoryGroup& group, const Groups& groups) {
  const std::uint64_t next = story.finished + 1;
  const auto op_of = [next](const Seat& seat) {
    const FlightOp* op = collective(seat, next);
    return op != nullptr ? *op : forgotten(next);
  };
  const auto called = [&](const auto& entry) { return entry.second.part->queued >= next; };
  if (std::none_of(group.seats.begin(), group.seats.end(), called)) return;
  story.number = next;
  for (const auto& [rank, seat] : group.seats) {
    if (seat.part->queued < next) {
      story.absent.push_back(absent_of(seat, groups));
    } else if (seat.part->finished >= next) {
      story.past.push_back({seat.file->rank, op_of(seat), doing(*seat.file, groups)});
    } else {
      story.in.push_back(wait_of(*seat.file, op_of(seat), group));
    }
  }
  for (const FlightWait& one : story.in) story.differ = story.differ || !fits(one.op, story.in.front().op);
}

FlightGroupStory tell(const StoryGroup& group, const Groups& groups) {
  FlightGroupStory story;
  story.name = group.name;
  story.size = group.size;
  story.without_file = group.size - static_cast<int>(group.seats.size());
  story.finished = group.seats.begin()->second.part->finished;
  for (const auto& [rank, seat] : group.seats) {
    story.ranks.push_back(seat.file->rank);
    story.finished = std::min(story.finished, seat.part->finished);
    for (const FlightOp& op : seat.file->ops)
      if (op.group == seat.part->id && op.message && is_in(*seat.file, op))
        story.waiting.push_back(wait_of(*seat.file, op, group));
    if (const FlightOp* op = misfit(seat)) story.misfit = wait_of(*seat.file, *op, group);
  }
  std::sort(story.ranks.begin(), story.ranks.end());
  for (const auto& [rank, seat] : group.seats) {
    const FlightOp* last = story.finished == 0 ? nullptr : collective(seat, story.finished);
    if (last != nullptr) story.last = *last;
  }
  tell_next(story, group, groups);
  return story;
}

// Who waits for whom: to a rank in a collective others are missing, and a message has a rank at its other end, which
// is not there as long as it has no counterpart under way.
std::map<int, std::vector<FlightCycle::Step>> edges_of(const Groups& groups) {
  std::map<int, std::vector<FlightCycle::Step>> edges;
  const auto add = [&](const Seat& from, const FlightOp& op, const StoryGroup& group, int to) {
    edges[from.file->rank].push_back({to, wait_of(*from.file, op, group)});
  };
  const auto meets = [](const Seat& peer, const FlightOp& op, int rank) {
    return std::any_of(peer.file->ops.begin(), peer.file->ops.end(), [&](const FlightOp& other) {
      return other.group == peer.part->id && other.message && other.state != FlightOp::State::done &&
             other.op != op.op && other.tag == op.tag && (other.peer == rank || other.peer < 0);
    });
  };
  for (const auto& [key, group] : groups)
    for (const auto& [rank, seat] : group.seats)
      for (const FlightOp& op : seat.file->ops) {
        if (op.group != seat.part->id || !is_in(*seat.file, op)) continue;
        if (op.message) {
          const auto peer = group.seats.find(op.peer);
          if (peer != group.seats.end() && !meets(peer->second, op, rank))
            add(seat, op, group, peer->second.file->rank);
          continue;
        }
        for (const auto& [other, theirs] : group.seats)
          if (theirs.part->queued < op.number) add(seat, op, group, theirs.file->rank);
      }
  // Of two ways from rank to rank the one that tells more.
  for (auto& [rank, ways] : edges)
    std::stable_partition(ways.begin(), ways.end(), [](const auto& step) { return step.wait.op.op != "recv"; });
  return edges;
}

// A receive may be posted long before anybody waits for it.
bool only_receives(const FlightCycle& cycle) {
  return std::all_of(cycle.steps.begin(), cycle.steps.end(),
                     [](const FlightCycle::Step& step) { return step.wait.op.op == "recv"; });
}

// The first cycle that is found, or that is not of receives alone; it begins with its lowest rank.
std::optional<FlightCycle> find_cycle(const std::map<int, std::vector<FlightCycle::Step>>& edges, bool of_receives) {
  const auto by_rank = [](const FlightCycle::Step& a, const FlightCycle::Step& b) { return a.rank < b.rank; };
  std::set<int> done;
  for (const auto& [start, ignored] : edges) {
    struct Visit {
      int rank;
      std::size_t next = 0;
    };
    std::vector<Visit> path;
    if (!done.contains(start)) path.push_back({start});
    while (!path.empty()) {
      Visit& visit = path.back();
      const auto from = edges.find(visit.rank);
      if (from == edges.end() || visit.next == from->second.size()) {
        done.insert(visit.rank);
        path.pop_back();
        continue;
      }
      const int to = from->second[visit.next++].rank;
      const auto begin = std::find_if(path.begin(), path.end(), [to](const Visit& one) { return one.rank == to; });
      if (begin != path.end()) {
        FlightCycle cycle;
        for (auto at = begin; at != path.end(); ++at)
          cycle.steps.push_back({at->rank, edges.at(at->rank)[at->next - 1].wait});
        std::rotate(cycle.steps.begin(), std::min_element(cycle.steps.begin(), cycle.steps.end(), by_rank),
                    cycle.steps.end());
        if (of_receives || !only_receives(cycle)) return cycle;
      } else if (!done.contains(to)) {
        path.push_back({to});
      }
    }
  }
  return std::nullopt;
}

// FlightStory::passing_ns; for how long a rank is in what is forgotten is not known.
std::optional<std::int64_t> passing(const std::vector<FlightReading>& files, const FlightStory& story) {
  constexpr std::int64_t kPassing = 1'000'000'000;
  const auto by_signal = [](const FlightReading& file) { return file.cause == "signal"; };
  if (!story.stuck() || !std::all_of(files.begin(), files.end(), by_signal)) return std::nullopt;
  std::int64_t longest = 0;
  for (const FlightGroupStory& group : story.groups)
    for (const auto* waits : {&group.in, &group.waiting})
      for (const FlightWait& wait : *waits)
        longest = std::max(longest, wait.op.queued_ns == 0 ? kPassing : wait.for_ns);
  return longest < kPassing ? std::optional(longest) : std::nullopt;
}

std::string cause_of(const FlightReading& file, const Groups& groups) {
  const FlightPart* part = file.part(file.cause_group);
  if (part == nullptr) return file.cause == "signal" ? "a signal asked for it" : file.cause;
  const StoryGroup& group = groups.at(part->key);
  const auto seat = group.seats.find(file.cause_rank);
  const std::string who = seat != group.seats.end()       ? fmt::format("rank {}", seat->second.file->rank)
                          : group.size == file.world_size ? fmt::format("rank {}", file.cause_rank)
                                                          : fmt::format("the group's rank {}", file.cause_rank);
  const char* what = file.cause == "timed_out"    ? "did not arrive in time"
                     : file.cause == "mismatched" ? "made a call that does not fit"
                                                  : "failed";
  return fmt::format("in group {}, {} {}", group.name, who, what);
}

Result<void> check_one_job(const std::vector<FlightReading>& files) {
  for (const FlightReading& file : files)
    if (file.job != files.front().job)
      return usage_error(fmt::format("{} is of job {}, and {} of job {}: name the files of one job",
                                     printable(file.path, 400), file.job, printable(files.front().path, 400),
                                     files.front().job));
  return {};
}

Result<void> check_each_rank_once(const std::vector<FlightReading>& files) {
  std::map<int, const FlightReading*> seen;
  for (const FlightReading& file : files) {
    const auto [at, fresh] = seen.emplace(file.rank, &file);
    if (!fresh)
      return usage_error(fmt::format("{} and {} are both of rank {}", printable(at->second->path, 400),
                                     printable(file.path, 400), file.rank));
  }
  return {};
}

}  // namespace

bool FlightStory::stuck() const {
  const auto is_stuck = [](const FlightGroupStory& group) {
    return group.number != 0 || !group.waiting.empty() || group.misfit;
  };
  return !passing_ns && (cycle.has_value() || std::any_of(groups.begin(), groups.end(), is_stuck));
}

Result<FlightStory> flight_story(std::vector<FlightReading> files) {
  if (auto fine = check_one_job(files); !fine) return fine.error();
  FlightStory story;
  for (const FlightReading& file : files) story.round = std::max(story.round, file.round);
  for (const FlightReading& file : files)
    if (file.round != story.round) story.other_rounds.push_back(file.path);
  std::erase_if(files, [&](const FlightReading& file) { return file.round != story.round; });
  if (auto fine = check_each_rank_once(files); !fine) return fine.error();
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });

  const Groups groups = groups_of(files);
  for (const FlightReading& file : files) {
    story.job = file.job;
    story.world_size = std::max(story.world_size, file.world_size);
    story.ranks.push_back(file.rank);
    const std::string cause = cause_of(file, groups);
    if (std::find(story.causes.begin(), story.causes.end(), cause) == story.causes.end()) story.causes.push_back(cause);
  }
  for (int rank = 0; rank < story.world_size; ++rank)
    if (!std::binary_search(story.ranks.begin(), story.ranks.end(), rank)) story.without_file.push_back(rank);
  for (const auto& [key, group] : groups) story.groups.push_back(tell(group, groups));
  // The one that stands still first, then the larger ones; their keys are chance.
  std::stable_sort(story.groups.begin(), story.groups.end(), [](const auto& a, const auto& b) {
    const auto order = [](const FlightGroupStory& one) {
      return std::tuple(one.number == 0 && one.waiting.empty() && !one.misfit, -one.size, one.name);
    };
    return order(a) < order(b);
  });
  // Ranks that others keep waiting explain it.
  const bool explained = std::any_of(story.groups.begin(), story.groups.end(), [](const FlightGroupStory& group) {
    return !group.absent.empty() || (group.number != 0 && group.without_file > 0);
  });
  story.passing_ns = passing(files, story);
  if (!story.passing_ns) story.cycle = find_cycle(edges_of(groups), !explained);
  return story;
}

}  // namespace dtrain::cli
