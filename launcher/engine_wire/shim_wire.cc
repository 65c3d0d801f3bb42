#include "launcher/engine_wire/shim_wire.h"

#include <fmt/format.h>

#include "launcher/engine_wire/json_line.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kLongestWordShown = 200, kMostPlaced = 65536;
constexpr int kMostWorkersOfNode = 65536;

std::optional<ShimNode> node_of(const Json& host) {
  const auto workers = host.is_object() ? typed_member<int>(host, "workers") : std::nullopt;
  const std::string name = workers ? text_member(host, "host") : "";
  if (name.empty() || *workers < 1 || *workers > kMostWorkersOfNode) return std::nullopt;
  auto takes = typed_member<std::map<std::string, double>>(host, "takes");
  return ShimNode{name, *workers, takes ? std::move(*takes) : std::map<std::string, double>()};
}

std::optional<ShimPlaced> placed_of(const Json& hosts) {
  if (!hosts.is_array() || hosts.empty() || hosts.size() > kMostPlaced) return std::nullopt;
  ShimPlaced placed;
  for (const Json& host : hosts) {
    auto node = node_of(host);
    if (!node) return std::nullopt;
    placed.nodes.push_back(std::move(*node));
  }
  return placed;
}

}  // namespace

std::string relay_order_line(const RelayOrder& order) {
  return one_line({{"addresses", order.addresses},
                   {"port", order.port},
                   {"job", order.job},
                   {"secret", order.secret},
                   {"agent", order.agent}});
}

Result<RelayOrder> parse_relay_order(std::string_view line) {
  // The text has a secret in it, so an error does not show it.
  const Error wrong{ErrorKind::usage, "the order has no addresses, port, job, secret or agent of the right types"};
  const auto json = json_object(line);
  if (!json) return wrong;
  const auto addresses = typed_member<std::vector<std::string>>(*json, "addresses");
  const auto port = typed_member<int>(*json, "port"), agent = typed_member<int>(*json, "agent");
  if (!addresses || addresses->empty() || !port || *port < 1 || *port > 65535 || !agent || *agent < 0) return wrong;
  return RelayOrder{*addresses, static_cast<std::uint16_t>(*port), text_member(*json, "job"),
                    text_member(*json, "secret"), *agent};
}

std::string shim_request_line(const ShimRequest& request) {
  return one_line({{"least", request.least},
                   {"most", request.most},
                   {"grows", request.grows},
                   {"workers", request.workers},
                   {"all", request.all},
                   {"looks", request.looks},
                   {"resources", request.resources},
                   {"options", request.options},
                   {"program", request.program},
                   {"order", Json::parse(relay_order_line(request.order))}});
}

std::string vacant_line(int agent) { return one_line({{"vacant", agent}}); }

Result<ShimWord> parse_shim_word(std::string_view line) {
  const auto json = json_object(line);
  if (json) {
    if (auto error = error_of(*json)) return ShimWord(std::move(*error));
    if (const auto lost = typed_member<int>(*json, "lost"); lost && *lost >= 0)
      return ShimWord(ShimLost{*lost, text_member(*json, "why")});
    if (const auto joined = typed_member<int>(*json, "joined"); joined && *joined >= 0)
      if (auto node = node_of(*json)) return ShimWord(ShimJoined{*joined, std::move(*node)});
    if (const auto hosts = json->find("placed"); hosts != json->end())
      if (auto placed = placed_of(*hosts)) {
        placed->named_by_cards = typed_member<bool>(*json, "named_by_cards").value_or(false);
        placed->begins_late = typed_member<bool>(*json, "begins_late").value_or(false);
        return ShimWord(std::move(*placed));
      }
  }
  return Error{ErrorKind::system,
               fmt::format("'{}' is nothing that an engine's shim says", printable(line.substr(0, kLongestWordShown)))};
}

}  // namespace dtrain::launcher
