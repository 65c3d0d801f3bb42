#pragma once
// What the submitter of a job and the shim that knows a cluster (scripts/engines) say to each other, on the
// shim's standard input and output, a line of JSON each. Pure.
//
//   submitter  {"least":1,"most":4, ...}                          a ShimRequest
//   shim       {"placed":[{"host":"10.0.0.1","workers":8},...]}   the nodes; a relay is being started on each. With
//                                                                "named_by_cards":true the hosts are not known yet.
//                                                                With "begins_late":true the engine has other work
//                                                                first
//   shim       {"joined":4,"host":"10.0.0.5","workers":8}       one more node, for a job that goes on without nodes
//   shim       {"lost":2,"why":"..."}                             an agent's node is lost, or has started none
//   shim       {"error":"...","kind":"unavailable"}               there is no job
//   submitter  {"vacant":2}                                      end what is left of this agent, and seek another node
//
// The end of the shim's input ends all that it has started.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// What tells a relay, on its standard input, which agent it starts and where that belongs. The secret is that of the
// link.
struct RelayOrder {
  std::vector<std::string> addresses{};  // numeric: of the submitter
  std::uint16_t port = 0;
  std::string job{};     // the link's name
  std::string secret{};  // in its text form (job_secret.h)
  int agent = 0;         // its number
  bool operator==(const RelayOrder&) const = default;
};

struct ShimRequest {
  int least = 1, most = 1;                    // nodes
  bool grows = false;                         // the job takes nodes that come later
  std::string workers{};                      // of each: a number, "auto", "cpu" or "gpu", as for --nproc
  std::map<std::string, double> resources{};  // of each worker, by the engine's names; empty: what the engine has
  std::string options{};                      // the user's, for the engine itself
  std::string program{};                      // dtrain's own file, if nodes share it
  RelayOrder order{};                         // for each relay; the agent's number is the shim's to add
  // In place of `workers`, for a job whose number of nodes the engine chooses: a number of workers, on as few nodes as
  // have room for them; or "auto", all nodes of the cluster.
  std::string all{};
  bool looks = false;  // only `placed` is asked for, and nothing is to be started
};

struct ShimNode {
  std::string host{};  // for people: a name or an address, or what the engine calls the agent until that has named one
  int workers = 0;
  std::map<std::string, double> takes{};  // all of them together, by the engine's names; only said to one that looks
  bool operator==(const ShimNode&) const = default;
};
struct ShimPlaced {
  std::vector<ShimNode> nodes{};
  bool named_by_cards = false;  // the engine does not know the hosts: the agents name them
  bool begins_late = false;     // the engine starts the agents when it has computed what they read
};
struct ShimLost {
  int agent = 0;
  std::string why{};
};
struct ShimJoined {
  int agent = 0;
  ShimNode node{};
};
using ShimWord = std::variant<ShimPlaced, ShimJoined, ShimLost, Error>;

std::string shim_request_line(const ShimRequest& request);
std::string vacant_line(int agent);
std::string relay_order_line(const RelayOrder& order);
Result<RelayOrder> parse_relay_order(std::string_view line);
// Error: the line makes no sense.
Result<ShimWord> parse_shim_word(std::string_view line);

}  // namespace dtrain::launcher
