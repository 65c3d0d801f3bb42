// See flight_file.h.
#include "strategies/comm/flight/flight_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// Names may be any bytes.
std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* name_of(FlightState state) {
  switch (state) {
    case FlightState::queued:
      return "queued";
    case FlightState::running:
      return "running";
    case FlightState::done:
      return "done";
    case FlightState::failed:
      return "failed";
  }
  return "?";
}

Json group_json(const FlightGroup& group) {
  return {{"id", group.id},
          {"key", group.key},
          {"name", group.name},
          {"rank", group.rank},
          {"size", group.size},
          {"queued", group.queued},
          {"finished", group.finished},
          {"messages", group.messages},
          {"messages_finished", group.messages_finished}};
}

Json shapes_of(const FlightCall& call) {
  Json shapes = Json::array();
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < call.shapes; ++i) {
    Json shape = Json::array();
    for (std::uint32_t dim = 0; dim < call.dims[i]; ++dim) shape.push_back(call.sizes[at++]);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Json record_json(const FlightRecord& record) {
  const FlightCall& call = record.call;
  Json json{{"serial", record.serial}, {"group", record.group}, {"number", record.number}, {"op", call.op}};
  if (call.message) {
    json["peer"] = call.peer;
    json["tag"] = call.tag;
  }
  if (const std::string origin = call.origin.text(); !origin.empty()) json["origin"] = origin;
  if (call.root >= 0) json["root"] = call.root;
  if (call.reduction != nullptr) json["reduction"] = call.reduction;
  if (call.type != nullptr) json["type"] = call.type;
  json["tensors"] = call.tensors;
  json["elements"] = call.elements;
  json["shapes"] = shapes_of(call);
  json["state"] = name_of(record.state);
  json["queued_ns"] = record.queued_at;
  if (record.started_at != 0) json["started_ns"] = record.started_at;
  if (record.ended_at != 0) json["ended_ns"] = record.ended_at;
  return json;
}

}  // namespace

std::string flight_file(const FlightRing::Snapshot& all, const FlightSettings& settings, const FlightHost& host,
                        const FlightCause& cause, std::int64_t now_ns) {
  Json why{{"kind", cause.kind}};
  if (cause.group != 0) {
    why["group"] = cause.group;
    why["rank"] = cause.rank;
  }
  const Json head{{"version", kVersion},
                  {"job", settings.job},
                  {"round", settings.round},
                  {"restarts", settings.restarts},
                  {"rank", settings.rank},
                  {"world_size", settings.world_size},
                  {"host", host.name},
                  {"pid", host.pid},
                  {"cause", why},
                  {"now_ns", now_ns},
                  {"called", all.called}};
  std::string out = text(head);
  out.pop_back();
  const auto list = [&out](const char* name, const auto& items, const auto& json) {
    out += fmt::format(",\n\"{}\": [", name);
    for (std::size_t i = 0; i < items.size(); ++i) out += (i == 0 ? "\n" : ",\n") + text(json(items[i]));
    out += "]";
  };
  list("groups", all.groups, group_json);
  list("records", all.records, record_json);
  return out + "}\n";
}

std::string flight_file_name(int rank) { return fmt::format("flight_rank{}.json", rank); }

}  // namespace dtrain
