// See request_wire.h. CBOR, because names may be any bytes.
#include "strategies/horovod/request_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace dtrain::hvd {

using nlohmann::json;

std::string describe(const Request& request) {
  std::string text =
      fmt::format("{} [{}] on {}, {}", request.type, fmt::join(request.shape, ", "), request.device, request.op);
  if (!request.group.empty()) text += fmt::format(", one of {} in group '{}'", request.members, request.group);
  return text;
}

std::string serialize(const std::vector<Asked>& asked) {
  json list = json::array();
  for (const auto& [r, waited] : asked)
    list.push_back({r.name, r.type, r.device, r.shape, r.bytes, r.op, r.group, r.members, waited.count()});
  std::string bytes;
  json::to_cbor(list, bytes);
  return bytes;
}

std::vector<Asked> parse_requests(std::string_view bytes) {
  std::vector<Asked> asked;
  for (const json& row : json::from_cbor(bytes)) {
    Asked each;
    each.request = {row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5), row.at(6), row.at(7)};
    each.waited = std::chrono::milliseconds{row.at(8).get<std::int64_t>()};
    asked.push_back(std::move(each));
  }
  return asked;
}

}  // namespace dtrain::hvd
