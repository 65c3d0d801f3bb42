#include "launcher/engines/meeting_place.h"

#include <algorithm>

#include "rendezvous/net/address_text.h"

namespace dtrain::launcher {

std::uint64_t hash_of(std::string_view text, std::uint64_t before) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return before;
}

std::uint16_t port_of_job(std::string_view run_id) {
  return static_cast<std::uint16_t>(kFirstJobPort + hash_of(run_id) % kJobPorts);
}

std::string endpoint_seen_from(const std::vector<std::string>& own, const std::vector<std::string>& of_node_0,
                               std::string_view port) {
  std::vector<std::string> seen;
  for (const std::string& address : of_node_0)
    if (std::find(own.begin(), own.end(), address) == own.end()) seen.push_back(address);
  return endpoint_of_node_0(seen, port);
}

std::string endpoint_of_node_0(const std::vector<std::string>& addresses, std::string_view port) {
  std::string endpoint;
  for (const std::string& address : addresses) endpoint += (endpoint.empty() ? "" : ",") + address_text(address, port);
  return endpoint;
}

}  // namespace dtrain::launcher
