#pragma once
// What a cloud's runner says about the nodes, on each of which it runs the same command: SkyPilot and dstack. Pure.
#include <optional>
#include <string>

#include "launcher/engines/variables.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct CloudPlace {
  std::string runner{};  // for people: "SkyPilot"
  std::string origin{};  // the variable that says how many nodes there are
  std::string rank_origin{}, address_origin{}, id_origin{};
  int nodes = 1;
  int node_rank = 0;
  std::string address{};  // of node 0; empty: there is one node
  std::string id{};       // the same on all nodes; may be empty
};

// Nothing: neither of them runs this process, or it is a worker. Error: the variables contradict each other.
Result<std::optional<CloudPlace>> cloud_place(const Variables& env);

}  // namespace dtrain::launcher
