#include "launcher/spill/state_file_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/job/state_job_name.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr int kStateFileVersion = 1;
constexpr int kMostPlaces = 1 << 24;
constexpr std::string_view kStateFiles = "dtrain-state.", kCopyEnd = ".copy", kUnfinishedEnd = ".part";

Error not_a_state(const std::string& what) { return {ErrorKind::usage, what}; }

template <class Number>
bool take_whole(const StateJson& json, const char* name, std::uint64_t most, Number& number) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most) return false;
  number = found->get<Number>();
  return true;
}

bool skip(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

std::optional<std::string_view> take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits.empty() ? std::nullopt : std::optional(digits);
}

}  // namespace

std::string state_head_text(const StateHead& head) {
  const StateOwner& owner = head.owner;
  const StateJson json{{"dtrain_state", kStateFileVersion},
                       {"job", state_job_name(owner.job)},
                       {"node", owner.node},
                       {"nodes", owner.nodes},
                       {"worker", owner.worker},
                       {"workers", owner.workers},
                       {"copy", owner.copy},
                       {"bytes", head.bytes}};
  std::string text = json.dump();
  text.resize(kStateHeadBytes - 1, ' ');
  return text + "\n";
}

Result<StateHead> parse_state_head(std::string_view text) {
  const bool whole = text.size() == kStateHeadBytes && text.back() == '\n' && text.starts_with("{\"dtrain_state\":");
  // Members within members cost the reader its stack, and there are none.
  const bool flat = std::count(text.begin(), text.end(), '{') == 1 && text.find('[') == text.npos;
  const StateJson json = whole && flat ? StateJson::parse(text, nullptr, false) : StateJson();
  if (!json.is_object()) return not_a_state("it is no state that dtrain has written, or it is damaged");
  const StateJson& version = json.at("dtrain_state");
  if (version != kStateFileVersion)
    return not_a_state(fmt::format("it has version {} of the format, and this dtrain has version {}",
                                   printable(version.dump(-1, ' ', true, StateJson::error_handler_t::replace), 20),
                                   kStateFileVersion));
  StateHead head;
  StateOwner& owner = head.owner;
  const auto job = json.find("job"), copy = json.find("copy");
  const bool good =
      job != json.end() && job->is_string() && copy != json.end() && copy->is_boolean() &&
      take_whole(json, "node", kMostPlaces, owner.node) && take_whole(json, "nodes", kMostPlaces, owner.nodes) &&
      take_whole(json, "worker", kMostPlaces, owner.worker) &&
      take_whole(json, "workers", kMostPlaces, owner.workers) && take_whole(json, "bytes", kMostStateBytes, head.bytes);
  if (!good) return not_a_state("its first line is damaged");
  const auto name = parse_state_job_name(job->get<std::string>());
  if (!name) return not_a_state("its first line is damaged");
  owner.job = *name;
  owner.copy = copy->get<bool>();
  return head;
}

std::uint64_t state_file_bytes(const StateHead& head) { return kStateHeadBytes + head.bytes + kStateSumBytes; }

std::string state_sum_text(std::uint32_t sum) {
  std::string text;
  for (std::size_t i = 0; i < kStateSumBytes; ++i) text += static_cast<char>(sum >> (8 * i));
  return text;
}

std::uint32_t parse_state_sum(std::string_view text) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kStateSumBytes; ++i) sum |= std::uint32_t{static_cast<unsigned char>(text[i])} << (8 * i);
  return sum;
}

std::optional<std::string> why_not_its_state(const StateOwner& found, const StateOwner& wanted) {
  if (found.job != wanted.job)
    return fmt::format("it is of job '{}', and this is '{}'", printable(found.job), printable(wanted.job));
  if (found.nodes != wanted.nodes || found.workers != wanted.workers)
    return fmt::format("it was written by a node with {} in a job of {}; this node has {}, and the job has {}",
                       counted(found.workers, "worker"), counted(found.nodes, "node"),
                       counted(wanted.workers, "worker"), counted(wanted.nodes, "node"));
  if (found != wanted)
    return fmt::format("it is of worker {} of node {}{}: somebody has renamed it", found.worker, found.node,
                       found.copy ? " (a copy)" : "");
  return std::nullopt;
}

std::string state_file_name(const StateOwner& owner) {
  return fmt::format("{}{}.n{}.w{}{}", kStateFiles, state_job_name(owner.job), owner.node, owner.worker,
                     owner.copy ? kCopyEnd : "");
}

std::string unfinished_name(const std::string& state_file_name) {
  return state_file_name + std::string(kUnfinishedEnd);
}

bool is_state_file(std::string_view name, const std::string& job, std::optional<int> node) {
  if (!skip(name, kStateFiles) || !skip(name, state_job_name(job)) || !skip(name, ".n")) return false;
  const auto of_node = take_digits(name);
  if (!of_node || !skip(name, ".w") || !take_digits(name)) return false;
  skip(name, kCopyEnd);
  skip(name, kUnfinishedEnd);
  return name.empty() && (!node || *of_node == std::to_string(*node));
}

}  // namespace dtrain::launcher
