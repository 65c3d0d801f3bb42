// `dtrain doctor`: the place where the nodes of a job meet, if variables name it.
// Tested by test/unit/cli/doctor/preflight_test.cc.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "cli/doctor/doctor.h"
#include "cli/nodes/nodes.h"
#include "cli/options/options.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/net/address_text.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;
constexpr const char* kWhat = "meeting place";
constexpr int kStaticPort = 29500;  // torchrun's

Findings unknown_name(const std::string& name, const Error& error) {
  // The name service has no answer yet: the host may not have started.
  const bool may_come = error.errno_value == EAGAIN;
  return {{may_come ? Level::retry : Level::fail, kWhat, error.message,
           may_come
               ? "jobs wait for a name. Kubernetes publishes a pod's when the pod is ready, or at once if the JobSet's "
                 "network has publishNotReadyAddresses: true"
               : fmt::format("give {} an address that others can connect to", printable(name))}};
}

}  // namespace

Findings judge_meeting(const Host& host, const std::function<PortUse(int port)>& use_of) {
  RawOptions raw;
  raw.command = {"program"};
  const Options options(raw, host);
  std::string text = options.text(FlagId::rdzv_endpoint);
  if (text.empty() && options.given(FlagId::master_addr))
    text = address_text(options.text(FlagId::master_addr), options.text(FlagId::master_port));
  // A list is of etcd's members, of whom one suffices.
  if (text.empty() || text.find(',') != std::string::npos || options.text(FlagId::nnodes) == "1") return {};
  const auto endpoint = parse_endpoint(text);
  if (!endpoint) return {{Level::fail, kWhat, endpoint.error().message, ""}};
  if (is_loopback_name(endpoint->host)) return {{Level::ok, kWhat, printable(text) + ", on this host alone", ""}};
  const auto place = host.meeting_address(endpoint->host);
  if (!place) return unknown_name(endpoint->host, place.error());
  if (place->own.empty())
    return {{Level::ok, kWhat, fmt::format("{}, another host's: {}", printable(text), place->addresses.front()), ""}};
  // Elsewhere the port may rightly be taken, by etcd, a server, or this job's other agent.
  const bool has_store = options.text(FlagId::node_rank) == "0";
  const PortUse use = has_store ? use_of(endpoint->port.value_or(kStaticPort)) : PortUse{};
  if (use.is_free) return {{Level::ok, kWhat, printable(text) + ", on this host", ""}};
  return {{Level::retry, kWhat, fmt::format("{}, on this host: the port is taken by {}", printable(text), use.holder),
           "end that, or wait until it ends"}};
}

Findings check_meeting() { return judge_meeting(this_host(), port_use); }

}  // namespace dtrain::cli
