// Tested by test/unit/cli/nodes/nodes_test.cc.
#include "cli/nodes/etcd_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/machine/own_address.h"
#include "cli/nodes/nodes.h"

namespace dtrain::cli {

namespace {

constexpr int kEtcdPort = 2379;
constexpr int kOwnPort = 29400;  // where nodes meet by c10d
constexpr int kLongestLease = 600;

// "http", "https", or what is neither.
Result<bool> is_https(const std::string& protocol) {
  if (protocol == "http" || protocol == "https") return protocol == "https";
  return usage_error("protocol must be http or https");
}

Result<void> add_members(std::string_view endpoints, std::optional<bool>& https, launcher::EtcdPlace& place) {
  for (const std::string& typed : split(endpoints, ',')) {
    std::string text = trimmed(typed);
    if (const auto scheme = text.find("://"); scheme != std::string::npos) {
      auto said = is_https(lower(text.substr(0, scheme)));
      if (!said) return usage_error("expected http:// or https://, or neither");
      if (https.value_or(*said) != *said) return usage_error("all members must use http, or all https");
      https = *said;
      text.erase(0, scheme + 3);
      if (text.ends_with('/')) text.pop_back();
    }
    if (text.find('@') != std::string::npos)
      return usage_error("give the user with --rdzv-conf user=NAME,password_file=FILE: others can see this command");
    auto endpoint = parse_endpoint(text);
    if (!endpoint) return endpoint.error();
    const int port = endpoint->port.value_or(kEtcdPort);
    if (port == 0) return usage_error("the port must not be 0");
    place.members.push_back({endpoint->host, {}, static_cast<std::uint16_t>(port)});
  }
  return {};
}

Result<void> take_lease_ttl(const std::map<std::string, std::string>& conf, launcher::EtcdPlace& place) {
  const auto typed = conf.find("lease_ttl");
  if (typed == conf.end()) return {};
  const auto ttl = parse_python_int(typed->second, 1, kLongestLease);
  if (!ttl) return usage_error(fmt::format("lease_ttl must be whole seconds from 1 to {}", kLongestLease));
  place.lease_ttl = *ttl;
  return {};
}

Result<void> add_own_members(std::string_view endpoints, launcher::EtcdPlace& place) {
  for (const std::string& text : split(endpoints, ',')) {
    auto endpoint = parse_endpoint(trimmed(text));
    if (!endpoint) return endpoint.error();
    const int port = endpoint->port.value_or(kOwnPort);
    if (port == 0) return usage_error("the port must not be 0");
    if (is_loopback_name(endpoint->host)) return usage_error("--ha is for several hosts, not for loopback addresses");
    for (const auto& member : place.members)
      if (member.name == endpoint->host) return usage_error(printable(member.name) + " is named twice");
    place.members.push_back({endpoint->host, {}, static_cast<std::uint16_t>(port)});
  }
  if (place.members.size() == 3 || place.members.size() == 5) return {};
  return usage_error("--ha needs three or five hosts: HOST[:PORT],HOST[:PORT],HOST[:PORT]");
}

}  // namespace

Result<launcher::EtcdPlace> own_etcd_place(std::string_view endpoints, const std::map<std::string, std::string>& conf) {
  launcher::EtcdPlace place;
  place.own = launcher::EtcdPlace::Own{};
  place.lease_ttl = 1;  // the job's alone, so nobody else keeps it busy
  if (auto added = add_own_members(endpoints, place); !added) return added.error();
  for (const auto& [key, value] : conf) {
    if (key == "lease_ttl") continue;
    if (key != "peer_port") return usage_error(key + " is for an etcd of your own; --ha starts one for the job");
    const auto port = parse_number(value, 1, 65535);
    if (!port) return usage_error("peer_port: " + port.error().message);
    place.own->peer_port = static_cast<std::uint16_t>(*port);
  }
  for (const auto& member : place.members)
    if (member.port == (place.own->peer_port != 0 ? place.own->peer_port : 65535))
      return usage_error("peer_port must differ from the ports of the endpoints");
  if (auto taken = take_lease_ttl(conf, place); !taken) return taken.error();
  return place;
}

Result<launcher::EtcdPlace> etcd_place(std::string_view endpoints, const std::map<std::string, std::string>& conf) {
  launcher::EtcdPlace place;
  const auto value = [&](const char* key) {
    const auto found = conf.find(key);
    return found == conf.end() ? std::string() : found->second;
  };
  std::optional<bool> https;
  if (conf.contains("protocol")) {
    auto said = is_https(lower(value("protocol")));
    if (!said) return said.error();
    https = *said;
  }
  if (auto added = add_members(endpoints, https, place); !added) return added.error();
  place.https = https.value_or(false);
  place.ca = value("cacert");
  place.certificate = value("cert");
  place.key = value("key");
  place.user = value("user");
  place.password_file = value("password_file");
  if (!place.https && !(place.ca + place.certificate + place.key).empty())
    return usage_error("certificates are for protocol=https");
  if (place.certificate.empty() && !place.key.empty()) return usage_error("key needs cert");
  if (place.user.empty() != place.password_file.empty()) return usage_error("user and password_file go together");
  // Who typed http means it; on loopback nobody is on the way.
  const bool far = std::any_of(place.members.begin(), place.members.end(),
                               [](const auto& member) { return !is_loopback_name(member.name); });
  if (!place.user.empty() && !https && far)
    return usage_error(
        "the password of user would go to etcd unencrypted: add protocol=https, or protocol=http if you want that");
  if (conf.contains("etcd_prefix")) place.prefix = value("etcd_prefix");
  while (place.prefix.ends_with('/')) place.prefix.pop_back();
  if (conf.contains("peer_port")) return usage_error("peer_port is for --ha");
  if (auto taken = take_lease_ttl(conf, place); !taken) return taken.error();
  return place;
}

}  // namespace dtrain::cli
