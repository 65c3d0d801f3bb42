#include "launcher/events/event_log.h"

#include <nlohmann/json.hpp>

#include "launcher/evidence/json_text.h"

namespace dtrain::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

// As Python's OrderedJson.dumps writes it, blanks and all: scripts look for it with regular expressions.
std::string string_in(const OrderedJson& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += string_in(OrderedJson(key)) + ": ";
    text += string_in(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

OrderedJson number_or_null(const std::optional<int>& number) {
  return number ? OrderedJson(*number) : OrderedJson(nullptr);
}

// torchrun puts a JSON text into the JSON; each number of a worker is a list of one there.
std::string inner_metadata(const EventSource& source, const Event& event) {
  OrderedJson inner;
  inner["group_world_size"] = event.assignment ? OrderedJson(event.assignment->nnodes) : OrderedJson(nullptr);
  inner["entry_point"] = source.entry_point;
  if (event.worker && event.assignment) {
    const EventWorker& worker = *event.worker;
    inner["local_rank"] = {worker.local_rank};
    inner["role_rank"] = {event.assignment->base_role_rank + worker.local_rank};
    inner["role_world_size"] = {event.assignment->role_world_size};
    inner["exit_code"] = OrderedJson::array({number_or_null(worker.exit_code)});
    inner["worker_pid"] = OrderedJson::array({worker.exit_code ? OrderedJson(worker.pid) : OrderedJson(nullptr)});
  }
  return string_in(inner);
}

}  // namespace

std::string event_line(const EventSource& source, const Event& event) {
  const bool of_worker = event.worker && event.assignment;
  OrderedJson metadata;
  metadata["run_id"] = source.run_id;
  metadata["global_rank"] =
      of_worker ? OrderedJson(event.assignment->base_rank + event.worker->local_rank) : OrderedJson(nullptr);
  metadata["group_rank"] = event.assignment ? OrderedJson(event.assignment->node_rank) : OrderedJson(nullptr);
  metadata["worker_id"] = of_worker ? OrderedJson(std::to_string(event.worker->pid)) : OrderedJson(nullptr);
  metadata["role"] = source.role;
  metadata["hostname"] = source.hostname;
  metadata["state"] = event.state;
  metadata["total_run_time"] = event.total_run_time_s;
  metadata["rdzv_backend"] = source.rdzv_backend;
  metadata["raw_error"] = of_worker ? text_or_null(event.worker->raw_error) : OrderedJson(nullptr);
  metadata["metadata"] = inner_metadata(source, event);
  metadata["agent_restarts"] = event.restarts;
  metadata["duration_ms"] = event.duration_ms ? OrderedJson(*event.duration_ms) : OrderedJson(nullptr);

  OrderedJson line;
  line["name"] = "torchelastic.worker.status." + event.state;
  line["source"] = of_worker ? "WORKER" : "AGENT";
  line["timestamp"] = event.timestamp_ms;
  line["metadata"] = std::move(metadata);
  return string_in(line);
}

}  // namespace dtrain::launcher
