#include "cli/flight/flight_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/base/readable.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using launcher::fold_ranks;
using OrderedJson = nlohmann::ordered_json;

std::string time(std::int64_t ns) { return launcher::readable_duration(std::chrono::nanoseconds(ns)); }

std::string verb(std::size_t count, const char* one, const char* several) { return count == 1 ? one : several; }

// "float32 [1024]", "float32 [2,3] [4] and 1 more".
std::string tensors_of(const FlightOp& op) {
  std::string text = op.type;
  for (const auto& shape : op.shapes) text += fmt::format(" [{}]", fmt::join(shape, ","));
  if (op.tensors > op.shapes.size())
    text += fmt::format(" and {} more, {} elements in all", op.tensors - op.shapes.size(), op.elements);
  return text;
}

std::string details_of(const FlightOp& op) {
  std::vector<std::string> parts;
  if (!op.reduction.empty()) parts.push_back(op.reduction);
  if (!op.type.empty()) parts.push_back(tensors_of(op));
  if (op.root >= 0) parts.push_back(fmt::format("root {}", op.root));
  if (op.message && op.tag != 0) parts.push_back(fmt::format("tag {}", op.tag));
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (!op.origin.empty()) text += (text.empty() ? "" : "; ") + op.origin;
  return text.empty() ? "" : fmt::format(" ({})", text);
}

std::string name_of(const FlightOp& op) { return fmt::format("{} #{}{}", op.op, op.number, details_of(op)); }

std::string name_of(const FlightWait& wait) {
  const FlightOp& op = wait.op;
  if (!op.message) return name_of(op);
  const std::string peer = op.peer < 0      ? "any rank"
                           : wait.peer >= 0 ? fmt::format("rank {}", wait.peer)
                                            : fmt::format("the group's rank {}", op.peer);
  return fmt::format("{} {} {}{}", op.op, op.op == "send" ? "to" : "from", peer, details_of(op));
}

std::string in_group(const FlightWait& wait) { return fmt::format("{} of group {}", name_of(wait), wait.group); }

// Ranks that called the same, and the longest that one of them has been in it.
struct Alike {
  std::string called;
  std::vector<int> ranks;
  std::int64_t longest_ns = 0;
};

std::vector<Alike> alike(const std::vector<FlightWait>& waits) {
  std::vector<Alike> all;
  for (const FlightWait& wait : waits) {
    const std::string called = name_of(wait);
    auto found = std::find_if(all.begin(), all.end(), [&](const Alike& one) { return one.called == called; });
    if (found == all.end()) found = all.insert(all.end(), {called, {}, 0});
    found->ranks.push_back(wait.rank);
    found->longest_ns = std::max(found->longest_ns, wait.for_ns);
  }
  return all;
}

std::string at_work(const std::vector<FlightWait>& doing) {
  if (doing.empty()) return "it is in no collective and no message";
  std::string text;
  for (const FlightWait& wait : doing)
    text += fmt::format("{}{}, for {}", text.empty() ? "it is in " : "; ", in_group(wait), time(wait.for_ns));
  return text;
}

std::string absent_lines(const FlightAbsent& absent) {
  std::string last = "it has called none in this group";
  if (absent.last && absent.last->is_over()) {
    last = fmt::format("its last one is {}, {} {} before it wrote its file", name_of(*absent.last),
                       absent.last->state == FlightOp::State::done ? "done" : "failed", time(absent.ago_ns));
  } else if (absent.last) {
    last = fmt::format("its last one is {}, which is not over", name_of(*absent.last));
  } else if (absent.called > 0) {
    last = fmt::format("its last one is #{}", absent.called);
  }
  return fmt::format("  rank {} has not called it: {}\n    {}\n", absent.rank, last, at_work(absent.doing));
}

std::string past_lines(const std::vector<FlightPast>& past) {
  std::map<std::string, std::vector<int>> called;
  for (const FlightPast& one : past) called[name_of(one.op)].push_back(one.rank);
  std::string out;
  for (const auto& [name, ranks] : called)
    out += fmt::format("  {}: {} {} done {} part\n", name, fold_ranks(ranks), verb(ranks.size(), "has", "have"),
                       verb(ranks.size(), "its", "their"));
  // Of one it is told what it is in now: more of them would say the same.
  if (past.size() == 1) out += fmt::format("    {}\n", at_work(past.front().doing));
  return out;
}

std::string next_lines(const FlightGroupStory& group) {
  if (group.number == 0) return "  no collective is under way\n";
  std::string out;
  if (group.differ) out += fmt::format("  collective #{} is not the same on all ranks:\n", group.number);
  for (const Alike& one : alike(group.in))
    out += fmt::format("  {}: {} {} in it, for {}\n", one.called, fold_ranks(one.ranks),
                       verb(one.ranks.size(), "is", "are"), time(one.longest_ns));
  out += past_lines(group.past);
  for (const FlightAbsent& one : group.absent) out += absent_lines(one);
  return out;
}

std::string group_lines(const FlightGroupStory& group) {
  std::string out = fmt::format("\ngroup {}, {}\n", group.name, counted(group.size, "rank"));
  if (group.without_file > 0)
    out += fmt::format("  {} of its ranks {} in no file\n", group.without_file,
                       verb(static_cast<std::size_t>(group.without_file), "is", "are"));
  const char* who = group.without_file > 0 ? "those with a file" : "all";
  if (group.finished == 0)
    out += fmt::format("  finished by {}: no collective\n", who);
  else
    out += fmt::format("  finished by {}: {}, the last {}\n", who, counted(group.finished, "collective"),
                       group.last ? name_of(*group.last) : "forgotten");
  out += next_lines(group);
  for (const FlightWait& wait : group.waiting)
    out += fmt::format("  {}: rank {} waits, for {}\n", name_of(wait), wait.rank, time(wait.for_ns));
  if (group.misfit)
    out += fmt::format("  {}: what came does not fit, at rank {}\n", name_of(*group.misfit), group.misfit->rank);
  return out;
}

std::string cycle_lines(const FlightCycle& cycle) {
  std::string out = "\nranks wait for each other in a circle:\n";
  for (std::size_t i = 0; i < cycle.steps.size(); ++i) {
    const FlightCycle::Step& step = cycle.steps[i];
    out += fmt::format("  rank {} waits for rank {} in {}\n", step.rank, cycle.steps[(i + 1) % cycle.steps.size()].rank,
                       in_group(step.wait));
  }
  return out;
}

std::string op_of_next(const FlightGroupStory& group) {
  if (!group.in.empty()) return group.in.front().op.op;
  return group.past.empty() ? "collective" : group.past.front().op.op;
}

// One line that says it all, where the eye is.
std::string verdict(const FlightStory& story) {
  if (story.passing_ns) return fmt::format("\nnothing has stood still for longer than {}\n", time(*story.passing_ns));
  if (!story.stuck()) return "\nno collective or message stands still\n";
  std::string out = "\n";
  for (const FlightGroupStory& group : story.groups) {
    if (group.misfit)
      out += fmt::format("a message to rank {} does not fit its {}\n", group.misfit->rank, in_group(*group.misfit));
    if (group.number == 0) continue;
    const std::string what = fmt::format("{} #{} of group {}", op_of_next(group), group.number, group.name);
    if (group.differ) out += fmt::format("ranks differ in collective #{} of group {}\n", group.number, group.name);
    std::vector<int> absent;
    for (const FlightAbsent& one : group.absent) absent.push_back(one.rank);
    if (!absent.empty())
      out += fmt::format("{} {} missing in {}\n", fold_ranks(absent), verb(absent.size(), "is", "are"), what);
    else if (group.without_file > 0 && !group.differ)
      out += fmt::format("all ranks with a file are in {}: the missing ranks have no file\n", what);
    else if (!group.differ)
      out += fmt::format("all ranks have called {}\n", what);
  }
  if (story.cycle) out += "ranks wait for each other: a deadlock\n";
  if (out == "\n") out += "messages wait for their other side\n";
  return out;
}

OrderedJson op_json(const FlightOp& op) {
  OrderedJson json{{"op", op.op}, {"number", op.number}};
  if (op.message) json["peer"] = op.peer;
  if (op.message) json["tag"] = op.tag;
  if (!op.origin.empty()) json["origin"] = op.origin;
  if (op.root >= 0) json["root"] = op.root;
  if (!op.reduction.empty()) json["reduction"] = op.reduction;
  if (!op.type.empty()) json["type"] = op.type;
  json["tensors"] = op.tensors;
  json["elements"] = op.elements;
  json["shapes"] = op.shapes;
  return json;
}

double seconds(std::int64_t ns) { return static_cast<double>(ns / 1'000'000) / 1000; }

OrderedJson wait_json(const FlightWait& wait) {
  OrderedJson json{
      {"rank", wait.rank}, {"group", wait.group}, {"call", op_json(wait.op)}, {"for_s", seconds(wait.for_ns)}};
  if (wait.peer >= 0) json["peer"] = wait.peer;
  return json;
}

OrderedJson waits_json(const std::vector<FlightWait>& waits) {
  OrderedJson all = OrderedJson::array();
  for (const FlightWait& wait : waits) all.push_back(wait_json(wait));
  return all;
}

OrderedJson group_json(const FlightGroupStory& group) {
  OrderedJson absent = OrderedJson::array();
  for (const FlightAbsent& one : group.absent)
    absent.push_back({{"rank", one.rank},
                      {"called", one.called},
                      {"last", one.last ? op_json(*one.last) : OrderedJson(nullptr)},
                      {"ago_s", seconds(one.ago_ns)},
                      {"doing", waits_json(one.doing)}});
  OrderedJson past = OrderedJson::array();
  for (const FlightPast& one : group.past) past.push_back(one.rank);
  return {{"name", group.name},
          {"size", group.size},
          {"ranks", group.ranks},
          {"without_file", group.without_file},
          {"finished", group.finished},
          {"last", group.last ? op_json(*group.last) : OrderedJson(nullptr)},
          {"number", group.number == 0 ? OrderedJson(nullptr) : OrderedJson(group.number)},
          {"in", waits_json(group.in)},
          {"past", std::move(past)},
          {"absent", std::move(absent)},
          {"differ", group.differ},
          {"messages", waits_json(group.waiting)},
          {"misfit", group.misfit ? wait_json(*group.misfit) : OrderedJson(nullptr)}};
}

}  // namespace

std::string flight_text(const FlightStory& story) {
  std::string out = fmt::format("job {}, round {}: {} of {}", story.job.empty() ? "without a name" : story.job,
                                story.round, fold_ranks(story.ranks), story.world_size);
  if (!story.without_file.empty())
    out += fmt::format("; {} wrote no file (stopped, dead, or on another node)", fold_ranks(story.without_file));
  out += "\n";
  for (const std::string& cause : story.causes) out += fmt::format("written because: {}\n", cause);
  if (!story.other_rounds.empty())
    out += fmt::format("left out: {} of earlier rounds\n", counted(story.other_rounds.size(), "file"));
  for (const FlightGroupStory& group : story.groups) out += group_lines(group);
  if (story.cycle) out += cycle_lines(*story.cycle);
  return out + verdict(story);
}

std::string flight_json(const FlightStory& story) {
  OrderedJson json{{"schema", 1},
                   {"job", story.job},
                   {"round", story.round},
                   {"world_size", story.world_size},
                   {"ranks", story.ranks},
                   {"without_file", story.without_file},
                   {"left_out", story.other_rounds},
                   {"causes", story.causes},
                   {"stuck", story.stuck()}};
  json["groups"] = OrderedJson::array();
  for (const FlightGroupStory& group : story.groups) json["groups"].push_back(group_json(group));
  json["cycle"] = nullptr;
  if (story.cycle) {
    json["cycle"] = OrderedJson::array();
    for (const FlightCycle::Step& step : story.cycle->steps) json["cycle"].push_back(wait_json(step.wait));
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
