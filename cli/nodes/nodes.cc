#include "cli/nodes/nodes.h"

#include <fmt/format.h>

#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/machine/own_address.h"
#include "cli/nodes/rdzv_conf.h"

namespace dtrain::cli {
namespace {

constexpr int kMostNodes = 1000000;
constexpr int kMeetingPort = 29400;  // torchrun's, c10d
constexpr int kMasterPort = 29500;   // torchrun's, static

// As torchrun's help says to write an IPv6 address.
std::string without_brackets(const std::string& address) {
  const bool brackets = address.size() > 2 && address.front() == '[' && address.back() == ']';
  return brackets ? address.substr(1, address.size() - 2) : address;
}

class Planner {
 public:
  explicit Planner(const NodesTyped& typed) : typed_(typed) {
    if (typed_.master_addr != "real") return;
    typed_.master_addr.reset();
    asks_for_real_ = true;
  }

  NodesVerdict run() {
    const bool good = count() && numbers() && conf() && meeting() && pulse() && real_master();
    if (good) note_unused();
    return {std::move(plan_), std::move(error_)};
  }

 private:
  bool fail(FlagId flag, std::string message) {
    error_ = NodesError{flag, std::move(message)};
    return false;
  }

  bool count() {
    const auto nodes = parse_nnodes(typed_.nnodes);
    if (!nodes) return fail(FlagId::nnodes, nodes.error().message);
    plan_.min = nodes->min;
    plan_.max = nodes->max;
    return true;
  }

  // Numbers, even where nothing comes of them.
  bool numbers() {
    if (typed_.node_rank && !is_python_int(*typed_.node_rank))
      return fail(FlagId::node_rank, "expected a whole number");
    if (typed_.master_port && !is_python_int(*typed_.master_port))
      return fail(FlagId::master_port, "expected a whole number");
    return true;
  }

  bool meeting() { return typed_.standalone ? standalone() : typed_.ha ? ha() : backend(); }

  bool standalone() {
    if (typed_.ha) return fail(FlagId::ha, "--standalone is a job of one node; leave out one of the two");
    if (plan_.min > 1) return fail(FlagId::nnodes, "--standalone is a job of one node; leave out one of the two");
    plan_.max = 1;  // nobody else can find it, so there is nobody to wait for
    return true;
  }

  bool conf() {
    const bool c10d = typed_.standalone || typed_.backend == "c10d" || meets_nobody();
    const auto meeting = etcd() ? Meeting::etcd : c10d ? Meeting::c10d : Meeting::fixed;
    auto conf = read_rdzv_conf(typed_.conf.value_or(""), meeting, plan_.max > 1);
    if (!conf) return fail(FlagId::rdzv_conf, conf.error().message);
    conf_ = std::move(*conf);
    plan_.notes = conf_.notes;
    return true;
  }

  bool backend() {
    const std::string name = typed_.backend.value_or("static");
    if (name == "static") return meet_static();
    if (name == "c10d") return meet_c10d();
    if (etcd()) return meet_etcd();
    return fail(FlagId::rdzv_backend, one_of(name, {"static", "c10d", "etcd", "etcd-v2"}).error().message);
  }

  // "HOST:PORT,..." from the flag into the plan: names and addresses of one host. Nodes that meet at several hosts
  // would be several jobs.
  bool endpoint(int default_port) {
    const auto wrong = [&](const std::string& why) { return fail(FlagId::rdzv_endpoint, why); };
    plan_.host.clear();
    plan_.host_flag = FlagId::rdzv_endpoint;
    bool loopback = false;
    for (const std::string& text : split(*typed_.endpoint, ',')) {
      const auto parsed = parse_endpoint(trimmed(text));
      if (!parsed) return wrong(parsed.error().message);
      const auto port = static_cast<std::uint16_t>(parsed->port.value_or(default_port));
      loopback = loopback || is_loopback_name(parsed->host);
      if (plan_.host.empty()) {
        plan_.host = parsed->host;
        plan_.port = port;
      } else if (loopback || port != plan_.port) {
        return wrong(loopback ? "a loopback address is this host alone, and needs no list"
                              : "a list names one host in several ways, all with the same port");
      } else {
        plan_.more_hosts.push_back(parsed->host);
      }
    }
    return true;
  }

  bool named_port(FlagId flag) {
    if (plan_.max == 1 || plan_.port != 0) return true;
    return fail(flag, "the nodes need a port that all of them know, not 0");
  }

  bool rank() {
    plan_.node_rank = 0;
    if (meets_nobody()) return true;
    const auto rank = parse_python_int(typed_.node_rank.value_or("0"), 0, kMostNodes);
    if (!rank) return fail(FlagId::node_rank, rank.error().message);
    if (*rank >= plan_.max)
      return fail(FlagId::node_rank,
                  fmt::format("ranks of nodes count from 0, and there are {} (--nnodes)", plan_.max));
    plan_.node_rank = *rank;
    return true;
  }

  // torchrun's too: one node, and no place named where others could come.
  bool meets_nobody() const { return plan_.max == 1 && !typed_.endpoint && !typed_.master_port; }

  bool meet_static() {
    plan_.join_timeout = conf_.timeout.value_or(std::chrono::seconds(900));
    plan_.min = plan_.max;  // torchrun's: a static job waits for all
    if (!rank()) return false;
    if (meets_nobody()) return local_host();
    if (typed_.endpoint) return endpoint(kMasterPort) && named_port(FlagId::rdzv_endpoint);
    plan_.host = without_brackets(typed_.master_addr.value_or("127.0.0.1"));
    const auto port = parse_python_int(typed_.master_port.value_or(std::to_string(kMasterPort)), 0, 65535);
    if (!port) return fail(FlagId::master_port, port.error().message);
    plan_.port = static_cast<std::uint16_t>(*port);
    return named_port(FlagId::master_port);
  }

  // One node has nobody to meet: a free port cannot clash with anything.
  bool meet_c10d() {
    plan_.join_timeout = conf_.join_timeout.value_or(plan_.join_timeout);
    plan_.last_call_timeout = conf_.last_call_timeout.value_or(plan_.last_call_timeout);
    if (plan_.max == 1) {
      if (typed_.endpoint && !endpoint(kMeetingPort)) return false;
      plan_.host.clear();
      plan_.port = 0;
      return local_host();
    }
    plan_.host = "localhost";
    plan_.port = kMeetingPort;
    if (typed_.endpoint && !endpoint(kMeetingPort)) return false;
    // One that is enough takes a free port and tells it; the others can have it as their endpoint.
    return plan_.min == 1 || named_port(FlagId::rdzv_endpoint);
  }

  bool pulse() {
    plan_.across_hosts = plan_.etcd || (plan_.max > 1 && !is_loopback_name(plan_.host));
    if (!plan_.across_hosts) {
      for (const auto& [key, typed] : {std::pair("keep_alive_interval", conf_.keep_alive_interval),
                                       std::pair("keep_alive_max_attempt", conf_.keep_alive_max_attempt)})
        if (typed)
          plan_.notes.push_back(fmt::format(
              "--rdzv-conf {} has no effect: agents on one host are connected, and nothing is polled", key));
      if (conf_.rejoin)
        plan_.notes.push_back("--rdzv-conf rejoin has no effect: the nodes of a job on one host are not cut off");
      if (conf_.succession)
        plan_.notes.push_back("--rdzv-conf succession has no effect: the nodes of a job on one host end with it");
      return true;
    }
    plan_.rejoin = plan_.node_rank < 0 && conf_.rejoin.value_or(true);
    plan_.succession = plan_.rejoin && conf_.succession.value_or(true);
    const auto interval = parse_python_int(conf_.keep_alive_interval.value_or("1"), 1, 3600);
    const auto attempts = parse_python_int(conf_.keep_alive_max_attempt.value_or("3"), 3, 1000);
    if (!interval) return fail(FlagId::rdzv_conf, "keep_alive_interval must be whole seconds from 1 to 3600");
    if (!attempts) return fail(FlagId::rdzv_conf, "keep_alive_max_attempt must be a number from 3 to 1000");
    plan_.pulse = {std::chrono::seconds(*interval), *attempts};
    return true;
  }

  // As torchrun: MASTER_ADDR is the address of rank 0's host.
  bool real_master() {
    plan_.real_master = plan_.across_hosts && (asks_for_real_ || typed_.as_torchrun);
    if (!asks_for_real_ || plan_.across_hosts) return true;
    if (plan_.max > 1 && !typed_.endpoint)
      return fail(FlagId::master_addr, "\"real\" names no host: say with --rdzv-endpoint where the nodes meet");
    plan_.notes.push_back("--master-addr real has no effect: the workers of a job on one host share its addresses");
    return true;
  }

  bool etcd() const {
    return !typed_.standalone && (typed_.ha || typed_.backend == "etcd" || typed_.backend == "etcd-v2");
  }

  // The nodes start an etcd of their own, and meet by it.
  bool ha() {
    if (typed_.backend && *typed_.backend != "c10d")
      return fail(FlagId::rdzv_backend, "--ha sets how the nodes meet; leave this out");
    if (plan_.max == 1) return fail(FlagId::nnodes, "--ha is for a job of several nodes");
    return meet_etcd();
  }

  // etcd says who hosts the job; any node may, at any port.
  bool meet_etcd() {
    plan_.join_timeout = conf_.join_timeout.value_or(plan_.join_timeout);
    plan_.last_call_timeout = conf_.last_call_timeout.value_or(plan_.last_call_timeout);
    if (plan_.max == 1) return local_host();  // nobody to meet
    if (!typed_.endpoint)
      return fail(FlagId::rdzv_endpoint, typed_.ha ? "name the hosts of etcd: HOST[:PORT],HOST[:PORT],HOST[:PORT]"
                                                   : "name the members of etcd: HOST[:PORT][,HOST[:PORT]...]");
    auto place = (typed_.ha ? own_etcd_place : etcd_place)(*typed_.endpoint, conf_.etcd);
    if (!place) return fail(conf_.etcd.empty() ? FlagId::rdzv_endpoint : FlagId::rdzv_conf, place.error().message);
    plan_.etcd = std::move(*place);
    plan_.host = typed_.local_addr.value_or("");
    plan_.host_flag = FlagId::local_addr;
    return true;
  }

  // A node alone listens where the user says that it is.
  bool local_host() {
    plan_.host = typed_.local_addr.value_or("");
    plan_.host_flag = FlagId::local_addr;
    return true;
  }

  void note_unused() {
    std::string names;
    auto unused = [&](bool is_unused, FlagId id) {
      if (is_unused) names += (names.empty() ? "" : ", ") + spelled(flag(id));
    };
    const bool c10d = typed_.backend == "c10d" || etcd();
    const bool alone = plan_.max == 1;
    const bool free_port = alone && plan_.port == 0;
    unused(typed_.standalone && typed_.backend, FlagId::rdzv_backend);
    unused((typed_.standalone || (alone && c10d)) && typed_.endpoint, FlagId::rdzv_endpoint);
    unused((typed_.standalone || c10d || meets_nobody()) && typed_.node_rank && *typed_.node_rank != "0",
           FlagId::node_rank);
    unused((typed_.standalone || c10d || typed_.endpoint || free_port) && typed_.master_addr, FlagId::master_addr);
    unused((typed_.standalone || c10d || typed_.endpoint) && typed_.master_port, FlagId::master_port);
    unused((typed_.standalone || !free_port) && !plan_.etcd && typed_.local_addr, FlagId::local_addr);
    unused((alone || !c10d) && typed_.topology, FlagId::topology);
    if (!names.empty()) plan_.notes.push_back("no effect here: " + names);
  }

  NodesTyped typed_;
  bool asks_for_real_ = false;
  NodesPlan plan_;
  std::optional<NodesError> error_;
  RdzvConf conf_;
};

}  // namespace

Result<NodeRange> parse_nnodes(std::string_view text) {
  const auto colon = text.find(':');
  const bool bounds = colon != std::string_view::npos;
  const auto number = [](std::string_view part) { return parse_python_int(part, 0, kMostNodes); };
  const auto least = number(text.substr(0, colon));
  const auto most = bounds ? number(text.substr(colon + 1)) : least;
  if (!least || !most) return usage_error("expected N or MIN:MAX");
  if (*least < 1 || *most < 1) return usage_error(bounds ? "MIN and MAX are at least 1" : "a job has at least 1 node");
  if (*least > *most) return usage_error("MIN is above MAX");
  return NodeRange{*least, *most};
}

bool as_they_come(const NodesTyped& typed) {
  const bool numbered = typed.node_rank || typed.master_port || (typed.master_addr && *typed.master_addr != "real");
  if (typed.as_torchrun || typed.backend || typed.standalone || typed.ha || numbered) return false;
  const auto nodes = parse_nnodes(typed.nnodes);
  return nodes && nodes->max > 1 && (typed.endpoint || nodes->min < nodes->max);
}

NodesVerdict plan_nodes(const NodesTyped& typed) { return Planner(typed).run(); }

Result<Endpoint> parse_endpoint(std::string_view text) {
  const Error bad = usage_error("expected HOST, HOST:PORT or [IPV6]:PORT");
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos)
    return usage_error("leave out " + std::string(text.substr(0, scheme)) + "://");
  Endpoint endpoint;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad;
    endpoint.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && port.front() != ':') return bad;
    port = port.empty() ? port : port.substr(1);
    if (port.empty() && close + 1 != text.size()) return bad;
  } else {
    const auto colon = text.rfind(':');
    endpoint.host = text.substr(0, colon);
    if (endpoint.host.find(':') != std::string::npos) return usage_error("an IPv6 address needs brackets: [::1]:29400");
    if (colon != std::string_view::npos) {
      port = text.substr(colon + 1);
      if (port.empty()) return bad;
    }
  }
  if (endpoint.host.empty() || endpoint.host.find(' ') != std::string::npos) return bad;
  if (port.empty()) return endpoint;
  const auto number = parse_number(port, 0, 65535);
  if (!number) return usage_error("port: " + number.error().message);
  endpoint.port = *number;
  return endpoint;
}

}  // namespace dtrain::cli
