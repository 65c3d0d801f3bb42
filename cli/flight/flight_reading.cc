#include "cli/flight/flight_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr int kMostRanks = 1 << 20;

// What is wrong with the file, for read_flight alone.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& need(const Json& from, const char* name) {
  if (!from.is_object()) throw Wrong(fmt::format("what should have '{}' is not an object", name));
  const auto at = from.find(name);
  if (at == from.end()) throw Wrong(fmt::format("'{}' is missing", name));
  return *at;
}

std::int64_t number_in(const Json& json, const char* name, std::int64_t least, std::int64_t most) {
  const bool small = json.is_number_integer() &&
                     (!json.is_number_unsigned() ||
                      json.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<std::int64_t>::max()));
  const std::int64_t value = small ? json.get<std::int64_t>() : 0;
  if (!small || value < least || value > most) throw Wrong(fmt::format("'{}' is out of its range", name));
  return value;
}

std::int64_t count_of(const Json& from, const char* name) {
  return number_in(need(from, name), name, 0, std::numeric_limits<std::int64_t>::max());
}

int small_of(const Json& from, const char* name, int least, int most) {
  return static_cast<int>(number_in(need(from, name), name, least, most));
}

std::string word_of(const Json& from, const char* name) {
  const Json& json = need(from, name);
  if (!json.is_string()) throw Wrong(fmt::format("'{}' is not a text", name));
  return printable(json.get<std::string>(), 200);
}

const Json& list_of(const Json& from, const char* name) {
  const Json& json = need(from, name);
  if (!json.is_array()) throw Wrong(fmt::format("'{}' is not a list", name));
  return json;
}

FlightPart part_of(const Json& json) {
  FlightPart part;
  part.id = static_cast<std::uint32_t>(number_in(need(json, "id"), "id", 1, std::numeric_limits<std::uint32_t>::max()));
  part.key = word_of(json, "key");
  part.name = word_of(json, "name");
  part.size = small_of(json, "size", 1, kMostRanks);
  part.rank = small_of(json, "rank", 0, part.size - 1);
  part.queued = static_cast<std::uint64_t>(count_of(json, "queued"));
  part.finished = static_cast<std::uint64_t>(count_of(json, "finished"));
  if (part.finished > part.queued) throw Wrong("'finished' is more than 'queued'");
  return part;
}

FlightOp::State state_of(const Json& json) {
  const std::string word = word_of(json, "state");
  if (word == "queued") return FlightOp::State::queued;
  if (word == "running") return FlightOp::State::running;
  if (word == "done") return FlightOp::State::done;
  if (word == "failed") return FlightOp::State::failed;
  throw Wrong("'state' is unknown");
}

FlightOp op_of(const Json& json) {
  FlightOp op;
  op.serial = static_cast<std::uint64_t>(count_of(json, "serial"));
  op.number = static_cast<std::uint64_t>(count_of(json, "number"));
  op.group =
      static_cast<std::uint32_t>(number_in(need(json, "group"), "group", 1, std::numeric_limits<std::uint32_t>::max()));
  op.op = word_of(json, "op");
  op.message = json.contains("peer");
  if (op.message) {
    op.peer = small_of(json, "peer", -1, kMostRanks);
    op.tag = small_of(json, "tag", 0, std::numeric_limits<int>::max());
  }
  if (json.contains("type")) op.type = word_of(json, "type");
  if (json.contains("reduction")) op.reduction = word_of(json, "reduction");
  if (json.contains("origin")) op.origin = word_of(json, "origin");
  if (json.contains("root")) op.root = small_of(json, "root", 0, kMostRanks);
  op.tensors = static_cast<std::uint64_t>(count_of(json, "tensors"));
  op.elements = static_cast<std::uint64_t>(count_of(json, "elements"));
  for (const Json& shape : list_of(json, "shapes")) {
    if (!shape.is_array()) throw Wrong("a shape is not a list");
    op.shapes.emplace_back();
    for (const Json& size : shape)
      op.shapes.back().push_back(number_in(size, "shapes", 0, std::numeric_limits<std::int64_t>::max()));
  }
  op.state = state_of(json);
  op.queued_ns = count_of(json, "queued_ns");
  if (json.contains("started_ns")) op.started_ns = count_of(json, "started_ns");
  if (json.contains("ended_ns")) op.ended_ns = count_of(json, "ended_ns");
  return op;
}

FlightReading reading_of(const Json& json) {
  if (!json.is_object() || !json.contains("version") || !json.contains("records")) throw Wrong("");
  FlightReading reading;
  const auto version = number_in(need(json, "version"), "version", 1, std::numeric_limits<int>::max());
  if (version != kVersion)
    throw Wrong(fmt::format("it has version {}, and this dtrain reads version {}", version, kVersion));
  reading.job = word_of(json, "job");
  reading.round = small_of(json, "round", 0, std::numeric_limits<int>::max());
  reading.world_size = small_of(json, "world_size", 1, kMostRanks);
  reading.rank = small_of(json, "rank", 0, reading.world_size - 1);
  reading.host = word_of(json, "host");
  reading.pid = small_of(json, "pid", 0, std::numeric_limits<int>::max());
  const Json& cause = need(json, "cause");
  reading.cause = word_of(cause, "kind");
  if (cause.contains("group")) {
    reading.cause_group = static_cast<std::uint32_t>(
        number_in(need(cause, "group"), "group", 1, std::numeric_limits<std::uint32_t>::max()));
    reading.cause_rank = small_of(cause, "rank", 0, kMostRanks);
  }
  reading.now_ns = count_of(json, "now_ns");
  std::set<std::uint32_t> ids;
  for (const Json& part : list_of(json, "groups")) {
    reading.parts.push_back(part_of(part));
    if (!ids.insert(reading.parts.back().id).second) throw Wrong("two groups have the same id");
  }
  for (const Json& op : list_of(json, "records")) {
    reading.ops.push_back(op_of(op));
    if (!ids.contains(reading.ops.back().group)) throw Wrong("a record belongs to no group");
  }
  return reading;
}

}  // namespace

const FlightPart* FlightReading::part(std::uint32_t id) const {
  const auto found = std::find_if(parts.begin(), parts.end(), [id](const FlightPart& one) { return one.id == id; });
  return found == parts.end() ? nullptr : &*found;
}

Result<FlightReading> read_flight(std::string_view text, std::string path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    FlightReading reading = reading_of(json);
    reading.path = std::move(path);
    return reading;
  } catch (const Wrong& wrong) {
    const std::string what = json.is_discarded() ? "it is not JSON, or not all of it" : wrong.what();
    return usage_error(fmt::format("{} is not a file of the flight recorder{}{}", printable(path, 400),
                                   what.empty() ? "" : ": ", what));
  }
}

}  // namespace dtrain::cli
