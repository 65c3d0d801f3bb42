#pragma once
// torchrun's rules for where the nodes of a job meet, as one pure function: the flags as typed -> one plan or one
// error.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/nodes/etcd_place.h"
#include "cli/table/flags.h"
#include "rendezvous/base/result.h"
#include "rendezvous/rounds/link_pulse.h"

namespace dtrain::cli {

// What the user said; nothing where a flag was neither typed nor set by a variable.
struct NodesTyped {
  std::string nnodes = "1:1";
  bool standalone = false;
  bool ha = false;
  std::optional<std::string> backend = {};
  std::optional<std::string> endpoint = {};
  std::optional<std::string> conf = {};
  std::optional<std::string> node_rank = {};
  std::optional<std::string> master_addr = {};
  std::optional<std::string> master_port = {};
  std::optional<std::string> local_addr = {};
  std::optional<std::string> topology = {};
  bool as_torchrun = false;
};

struct NodesPlan {
  int min = 1;
  int max = 1;
  int node_rank = -1;  // -1: as the nodes come
  // The nodes meet at another place than loopback: they may be on several hosts.
  bool across_hosts = false;
  PulseSettings pulse;                      // across hosts
  std::optional<launcher::EtcdPlace> etcd;  // across hosts; addresses are to be looked up
  bool rejoin = false;                      // NodesSpec
  bool real_master = false;                 // NodesSpec
  bool succession = false;                  // NodesSpec
  // A name or address, not across hosts: of this host; empty: 127.0.0.1, and no name to tell the workers.
  std::string host;
  std::vector<std::string> more_hosts;  // across hosts: further names and addresses of the same one
  FlagId host_flag = FlagId::master_addr;
  std::uint16_t port = 0;  // 0: a free one
  std::chrono::milliseconds join_timeout{600000};
  std::chrono::milliseconds last_call_timeout{30000};
  std::vector<std::string> notes;  // what was typed and is without effect
};

// An error, and the flag whose value is at fault.
struct NodesError {
  FlagId flag;
  std::string message;
};

struct NodesVerdict {
  NodesPlan plan;
  std::optional<NodesError> error;
};

// "N" or "MIN:MAX".
struct NodeRange {
  int min = 1, max = 1;
};
Result<NodeRange> parse_nnodes(std::string_view text);

NodesVerdict plan_nodes(const NodesTyped& typed);

// By the name dtrain, with no --rdzv-backend: several nodes that are named a place, or a MIN and a MAX, and none of
// which has a number, are numbered as they come (c10d). By the name torchrun they are static, as ever.
bool as_they_come(const NodesTyped& typed);

// "HOST", "HOST:PORT", "[::1]:PORT".
struct Endpoint {
  std::string host;
  std::optional<int> port;
};
Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace dtrain::cli
