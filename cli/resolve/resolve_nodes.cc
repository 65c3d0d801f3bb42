// Which nodes form the job, and where they meet: the rules are in nodes.h, here they meet this host's addresses.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include <cerrno>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/engines/mpi.h"
#include "cli/engines/slurm.h"
#include "cli/nodes/nodes.h"
#include "cli/options/take_value.h"
#include "cli/program/program.h"
#include "cli/resolve/backend.h"
#include "cli/resolve/resolve_parts.h"
#include "launcher/engines/slurm_plan.h"

namespace dtrain::cli {
namespace {

constexpr const char* kRealMaster =
    "--master-addr real: the workers' traffic with the store is not encrypted between hosts; the store lets in only "
    "connections that an agent of this job vouches for";

std::optional<std::string> said(const Options& options, FlagId id) {
  return options.given(id) ? std::optional(options.text(id)) : std::nullopt;
}

Result<NodesTyped> typed(const Options& options, bool as_torchrun) {
  NodesTyped typed;
  typed.as_torchrun = as_torchrun;
  typed.nnodes = options.text(FlagId::nnodes);
  if (auto done = take_switch(options, FlagId::standalone, typed.standalone); !done) return done.error();
  if (auto done = take_switch(options, FlagId::ha, typed.ha); !done) return done.error();
  typed.backend = said(options, FlagId::rdzv_backend);
  typed.endpoint = said(options, FlagId::rdzv_endpoint);
  if (typed.endpoint == "") typed.endpoint.reset();  // as torchrun: an empty one is none
  typed.conf = said(options, FlagId::rdzv_conf);
  typed.node_rank = said(options, FlagId::node_rank);
  typed.master_addr = said(options, FlagId::master_addr);
  typed.master_port = said(options, FlagId::master_port);
  typed.local_addr = said(options, FlagId::local_addr);
  typed.topology = said(options, FlagId::topology);
  return typed;
}

// "10.0.0.1 (eth0), fd00::1 (eth0)"
std::string listed(const std::vector<InterfaceAddress>& addresses) {
  std::string text;
  for (const InterfaceAddress& i : addresses)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", i.address, i.interface);
  return text.empty() ? "none but loopback" : text;
}

// Gloo and NCCL guess which interface to use; we know one that leads to the others.
void name_interface(const Given& given, const std::string& interface, Plan& plan) {
  std::string said;
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (interface.empty() || given.host.env.contains(name)) continue;
    plan.spec.extra_env.emplace_back(name, interface);
    said += fmt::format("{}{}={}", said.empty() ? "" : " ", name, interface);
  }
  if (!said.empty()) plan.notes.push_back(said + ": the interface that leads to the other nodes");
}

// A name that is not known yet may be once its host has started.
bool may_come(const Error& error) { return error.errno_value == EAGAIN; }

// Addresses of etcd's members, and an interface that leads to one of them. Whose name is not known is looked up again
// by the agent, if it can be known some time; as long as there is another one.
Result<void> find_etcd(const Given& given, launcher::EtcdPlace etcd, Plan& plan) {
  std::string interface;
  std::optional<Error> unknown;
  bool known = false;
  for (auto& member : etcd.members) {
    if (is_loopback_name(member.name)) {
      member.addresses = member.name == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"}
                                                    : std::vector<std::string>{member.name};
      known = true;
      continue;
    }
    auto place = given.host.meeting_address(member.name);
    if (!place) {
      unknown = place.error();
      if (!may_come(*unknown)) return given.options.blame(FlagId::rdzv_endpoint, *unknown);
      plan.warnings.push_back("--rdzv-endpoint: " + place.error().message);
      continue;
    }
    known = true;
    member.addresses = place->addresses;
    if (interface.empty()) interface = place->interface;
  }
  if (!known) {
    plan.awaited_host = etcd.members.front().name;
    plan.warnings.clear();
  }
  plan.spec.nodes.etcd = std::move(etcd);
  name_interface(given, interface, plan);
  return {};
}

// Where the others reach the agent of this node: by the way that leads to the other members.
std::string address_to(const std::string& interface, const MeetingAddress& own) {
  if (own.own != "::") return own.own;
  for (const InterfaceAddress& i : own.of_this_host)
    if (i.interface == interface) return i.address;
  return "";
}

Result<void> start_member(const Given& given, launcher::EtcdPlace& etcd, const MeetingAddress& place, Plan& plan) {
  auto& own = *etcd.own;
  const auto& member = etcd.members[static_cast<std::size_t>(own.self)];
  own.address = place.own;
  own.names = {member.name, "127.0.0.1", "::1"};
  for (const InterfaceAddress& i : place.of_this_host) own.names.push_back(i.address);
  own.names.insert(own.names.end(), place.addresses.begin(), place.addresses.end());
  own.program = find_in_path("etcd", given.host);
  if (own.program.empty())
    return Error{ErrorKind::system,
                 "--ha starts etcd on this host, but etcd is not in PATH: apt install etcd-server (Debian, Ubuntu), or "
                 "see https://etcd.io"};
  plan.notes.push_back(
      fmt::format("this node runs member {} of {} of the job's own etcd", own.self + 1, etcd.members.size()));
  return {};
}

// Which member of the job's own etcd is this node's, and the addresses of all. A name that is not known yet may be that
// of this host.
Result<void> find_own_etcd(const Given& given, launcher::EtcdPlace etcd, Plan& plan) {
  std::string interface, unknown;
  std::optional<MeetingAddress> here;
  for (std::size_t i = 0; i < etcd.members.size(); ++i) {
    auto& member = etcd.members[i];
    auto place = given.host.meeting_address(member.name);
    if (!place && !may_come(place.error())) return given.options.blame(FlagId::rdzv_endpoint, place.error());
    if (!place) {
      unknown = member.name;
      continue;
    }
    member.addresses = place->addresses;
    if (interface.empty() || !place->own.empty()) interface = place->interface;
    if (place->own.empty()) continue;
    if (here) return given.options.blame(FlagId::rdzv_endpoint, usage_error("it names this host twice"));
    etcd.own->self = static_cast<int>(i);
    here = *place;
  }
  if (!here) plan.awaited_host = unknown;
  if (here) {
    if (auto done = start_member(given, etcd, *here, plan); !done) return done;
    if (plan.spec.nodes.address.empty()) plan.spec.nodes.address = address_to(interface, *here);
  }
  plan.spec.nodes.etcd = std::move(etcd);
  name_interface(given, interface, plan);
  return {};
}

Result<void> meet_by_etcd(const Given& given, const NodesPlan& nodes, Plan& plan) {
  auto& spec = plan.spec.nodes;
  spec.across_hosts = true;
  spec.pulse = nodes.pulse;
  spec.rejoin = nodes.rejoin;
  spec.address.clear();
  spec.master_addr.clear();
  if (!nodes.host.empty()) {
    auto address = given.host.own_address(nodes.host);
    if (!address) return given.options.blame(nodes.host_flag, address.error());
    spec.address = *address;
  }
  return nodes.etcd->own ? find_own_etcd(given, *nodes.etcd, plan) : find_etcd(given, *nodes.etcd, plan);
}

// Of a SLURM step's nodes, or an MPI job's, for the lines about who is missing.
std::vector<std::string> node_names(const Given& given) {
  if (mpi_has_said(given.host, given.options)) return given.host.mpi->meeting->hosts;
  if (given.options[FlagId::node_rank].where != "SLURM_NODEID") return {};
  auto step = launcher::slurm_step(given.host.env);
  return step && *step ? (*step)->hosts : std::vector<std::string>{};
}

// What this name adds to a place; an error if one of both is an address of this host, and the other is not.
Result<void> add_place(const std::string& name, const MeetingAddress& more, const std::string& first,
                       MeetingAddress& place) {
  if (more.own.empty() != place.own.empty())
    return usage_error(fmt::format(
        "{} is an address of this host, {} is not: a list names one host in several ways (for several hosts: "
        "--ha)",
        printable(place.own.empty() ? name : first), printable(place.own.empty() ? first : name)));
  place.addresses.insert(place.addresses.end(), more.addresses.begin(), more.addresses.end());
  if (place.own != more.own) place.own = "::";
  if (place.interface.empty()) place.interface = more.interface;
  return {};
}

// One host by all of its names and addresses that were typed, and are known.
Result<MeetingAddress> place_of(const Given& given, const NodesPlan& nodes, Plan& plan) {
  std::vector<std::string> names{nodes.host};
  names.insert(names.end(), nodes.more_hosts.begin(), nodes.more_hosts.end());
  std::optional<MeetingAddress> place;
  std::string first;
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    auto found = given.host.meeting_address(name);
    if (!found && !may_come(found.error())) return found;
    if (!found) {
      unknown.push_back(name);
    } else if (place) {
      if (auto added = add_place(name, *found, first, *place); !added) return added.error();
    } else {
      place = std::move(*found);
      first = name;
    }
  }
  if (!place) {
    plan.awaited_host = unknown.front();
    return MeetingAddress{};
  }
  for (const std::string& name : unknown)
    plan.warnings.push_back(fmt::format("--rdzv-endpoint: {} is not known; trying the others", printable(name)));
  return *place;
}

// Whether this node hosts the job at first, as far as that is known. Of nodes of a step of SLURM that come and go it is
// the first one, since one makes the secret.
std::optional<bool> hosts_at_first(const Given& given, const NodesPlan& nodes) {
  if (nodes.node_rank >= 0) return nodes.node_rank == 0;
  if (given.options[FlagId::rdzv_endpoint].where != kSlurmNodes) return std::nullopt;
  return given.host.variable("SLURM_NODEID") == "0";
}

Result<void> meet_across_hosts(const Given& given, const NodesPlan& nodes, Plan& plan) {
  auto place = place_of(given, nodes, plan);
  if (!place) return given.options.blame(nodes.host_flag, place.error());
  const auto hosts = hosts_at_first(given, nodes);
  if (hosts.value_or(false) && place->own.empty() && plan.awaited_host.empty())
    return given.options.blame(
        nodes.host_flag,
        usage_error(fmt::format("not an address of this host, and node 0 hosts the job; this host has {}; {}",
                                listed(place->of_this_host),
                                given.options.given(FlagId::node_rank) ? "is this node really --node-rank 0?"
                                                                       : "without --node-rank a node is node 0")));
  auto& spec = plan.spec.nodes;
  spec.across_hosts = true;
  spec.addresses = place->addresses;
  spec.pulse = nodes.pulse;
  spec.rejoin = nodes.rejoin;
  spec.succession = nodes.succession;
  spec.master_addr = nodes.host;
  spec.address = hosts.value_or(true) ? place->own : "";
  const bool meets = !has_groups(given.options);  // else only the way to the others counts
  if (meets && spec.address == "::" && !nodes.more_hosts.empty())
    plan.notes.push_back("if this node hosts the job, it listens at all addresses of this host");
  else if (meets && spec.address == "::")
    plan.notes.push_back(fmt::format(
        "{} is a loopback address here: if this node hosts the job, it listens at all addresses of this host",
        printable(nodes.host)));
  name_interface(given, place->interface, plan);
  return {};
}

Result<void> take_topology(const Options& options, std::string& name) {
  constexpr std::size_t kLongest = 128;
  name = options.text(FlagId::topology);
  if (name.size() <= kLongest && !has_control_bytes(name)) return {};
  return options.blame(
      FlagId::topology,
      usage_error(fmt::format("the name of a place has at most {} characters, and no control characters", kLongest)));
}

}  // namespace

void choose_backend(const RawOptions& raw, Options& options) {
  const auto flags = typed(options, raw.as_torchrun);  // an error is told by resolve_nodes()
  if (flags && as_they_come(*flags))
    options.suggest(FlagId::rdzv_backend, "c10d",
                    spelled(flag(flags->endpoint ? FlagId::rdzv_endpoint : FlagId::nnodes)));
}

Result<void> resolve_nodes(const Given& given, Plan& plan) {
  auto flags = typed(given.options, given.raw.as_torchrun);
  if (!flags) return flags.error();
  auto [nodes, error] = plan_nodes(*flags);
  if (error) return given.options.blame(error->flag, {ErrorKind::usage, error->message});
  auto& spec = plan.spec.nodes;
  spec.min = nodes.min;
  spec.max = nodes.max;
  spec.node_rank = nodes.max > 1 ? nodes.node_rank : -1;
  if (auto taken = take_topology(given.options, spec.topology); !taken) return taken;
  spec.port = nodes.port;
  spec.join_timeout = nodes.join_timeout;
  spec.last_call_timeout = nodes.last_call_timeout;
  spec.real_master = nodes.real_master;
  if (nodes.real_master && !given.raw.as_torchrun) plan.notes.push_back(kRealMaster);
  plan.notes.insert(plan.notes.end(), nodes.notes.begin(), nodes.notes.end());
  spec.names = node_names(given);
  if (nodes.etcd) return meet_by_etcd(given, nodes, plan);
  if (nodes.host.empty()) return {};
  if (nodes.across_hosts) return meet_across_hosts(given, nodes, plan);
  auto address = given.host.own_address(nodes.host);
  if (!address) return given.options.blame(nodes.host_flag, address.error());
  spec.address = *address;
  spec.master_addr = nodes.host;
  return {};
}

}  // namespace dtrain::cli
