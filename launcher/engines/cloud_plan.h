#pragma once
// What a cloud's runner says about the nodes, on each of which it runs the same command: SkyPilot, dstack, and an
// indexed Job of Kubernetes. Pure.
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

// A pod of an indexed Job, which may be a JobSet's. How many pods there are it does not know.
struct IndexedPod {
  static constexpr const char* kOrigin = "JOB_COMPLETION_INDEX";
  int index = 0;
  // The name of the pod with index 0, and what the names of all pods begin with. Empty: this pod's name,
  // JOB-INDEX.DOMAIN, has no domain, so pods cannot find each other; or it does not end with the index.
  std::string first{}, job{};
};

// `name`: of this host, with its domain. Nothing: this is no such pod, or a worker.
std::optional<IndexedPod> indexed_pod(const Variables& env, const std::string& name);

}  // namespace dtrain::launcher
