#include "launcher/engine_wire/agent_wire.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "launcher/engine_wire/json_line.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kMostAddresses = 64, kLongestShown = 200;
Error no_sense(std::string_view what, std::string_view line) {
  return {ErrorKind::system, fmt::format("'{}' is no {}", printable(line.substr(0, kLongestShown)), what)};
}

// Programs get C strings.
bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

Json place_json(const AgentPlace& place) {
  return {{"engine", place.engine},     {"nnodes", place.nnodes}, {"node_rank", place.node_rank},
          {"endpoint", place.endpoint}, {"run_id", place.run_id}, {"nproc", place.nproc},
          {"conf", place.conf}};
}

}  // namespace

bool is_of_agent(std::string_view line) { return line.find(kAgentMark) != std::string_view::npos; }

std::string card_line(const AgentCard& card) {
  return agent_line(
      {{"protocol", kAgentProtocol}, {"version", card.version}, {"host", card.host}, {"addresses", card.addresses}});
}

Result<std::string> task_line(const AgentTask& task) {
  for (const std::string& word : task.words)
    if (!is_utf8(word))
      return Error{ErrorKind::usage,
                   fmt::format("'{}' is not UTF-8, and only that can be sent to other hosts", printable(word))};
  for (const auto& [name, value] : task.env)
    if (!is_utf8(name) || !is_utf8(value))
      return Error{ErrorKind::usage,
                   fmt::format("the variable {} is not UTF-8, and only that can be sent to other hosts: unset it",
                               printable(name))};
  if (!is_utf8(task.folder))
    return Error{ErrorKind::usage, fmt::format("the folder '{}' is not UTF-8, and only that can be sent to other hosts",
                                               printable(task.folder))};
  Json json = {{"called", task.called},
               {"words", task.words},
               {"env", task.env},
               {"folder", task.folder},
               {"place", place_json(task.place)}};
  if (!task.looks_for.empty()) json["looks_for"] = task.looks_for;
  if (!task.origins.empty()) json["origins"] = task.origins;
  if (!task.ship.empty()) json["ship"] = ship_json(task.ship);
  std::string line = one_line(json);
  if (line.size() > kLongestAgentLine)
    return Error{ErrorKind::usage, fmt::format("arguments and environment are {} MiB, and at most {} MiB can be sent "
                                               "to other hosts",
                                               line.size() >> 20, kLongestAgentLine >> 20)};
  return line;
}

std::string verdict_line(const Result<void>& verdict) {
  if (verdict) return agent_line({{"ready", true}});
  return agent_line(error_json(verdict.error()));
}

Result<AgentCard> parse_agent_card(std::string_view line) {
  const auto json = agent_json(line);
  const auto protocol = json ? typed_member<int>(*json, "protocol") : std::nullopt;
  if (!protocol) return no_sense("greeting of `dtrain agent`", line);
  AgentCard card{text_member(*json, "version"), text_member(*json, "host"), {}};
  if (*protocol != kAgentProtocol)
    return Error{ErrorKind::usage, fmt::format("{} is there, which speaks another protocol: install the same "
                                               "version on all hosts",
                                               printable(card.version))};
  const auto addresses = typed_member<std::vector<std::string>>(*json, "addresses");
  if (!addresses || addresses->size() > kMostAddresses) return no_sense("greeting of `dtrain agent`", line);
  card.addresses = *addresses;
  return card;
}

Result<AgentTask> parse_agent_task(std::string_view line) {
  const auto json = json_object(line);
  // The text may have the job's token in it, so an error does not show it.
  const Error wrong{ErrorKind::usage, "the task has no words, env or place of the right types"};
  if (!json) return wrong;
  const auto words = typed_member<std::vector<std::string>>(*json, "words");
  const auto env = typed_member<std::map<std::string, std::string>>(*json, "env");
  const auto place = typed_member<Json>(*json, "place");
  if (!words || !env || !place || !place->is_object()) return wrong;
  AgentTask task{text_member(*json, "called"),   *words, *env, text_member(*json, "folder"), {}, {}, {},
                 text_member(*json, "looks_for")};
  if (auto origins = typed_member<std::map<std::string, std::string>>(*json, "origins"))
    task.origins = std::move(*origins);
  task.place = {text_member(*place, "engine"),   text_member(*place, "nnodes"), text_member(*place, "node_rank"),
                text_member(*place, "endpoint"), text_member(*place, "run_id"), text_member(*place, "nproc"),
                text_member(*place, "conf")};
  for (const std::string& word : task.words)
    if (has_nul(word)) return wrong;
  for (const auto& [name, value] : task.env)
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) return wrong;
  if (has_nul(task.folder) || has_nul(task.looks_for)) return wrong;
  if (const auto ship = json->find("ship"); ship != json->end()) {
    auto files = parse_ship_files(*ship);
    if (!files) return files.error();
    task.ship = std::move(*files);
  }
  return task;
}

Result<void> parse_agent_verdict(std::string_view line) {
  const auto json = agent_json(line);
  if (!json) return no_sense("answer of `dtrain agent`", line);
  if (typed_member<bool>(*json, "ready") == true) return {};
  auto error = error_of(*json);
  return error ? std::move(*error) : no_sense("answer of `dtrain agent`", line);
}

}  // namespace dtrain::launcher
