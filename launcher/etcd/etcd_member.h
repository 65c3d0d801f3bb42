#pragma once
// What a member of a job's own etcd (--ha) is started with, and whether one may be. Pure.
//
// All members are there from the beginning, by the list that the user typed: the same on all nodes. A member that has
// lost its data must not come back under its old number, as it may have promised what it no longer knows: it is taken
// out of the cluster and added anew.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/etcd/etcd_wire.h"

namespace dtrain::launcher {

// "m0=https://n1:29401,m1=...", as all members have to have it.
std::string etcd_cluster(const EtcdPlace& place);
// The same, of a cluster that this node's member has been added to.
std::string etcd_cluster(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members);
std::string etcd_peer_url(const EtcdPlace& place, std::size_t member);
// Where this node's member listens: for clients, and for the other members.
std::array<std::uint16_t, 2> own_etcd_ports(const EtcdPlace& place);

// The command line; `existing`: it has been added to a cluster.
std::vector<std::string> etcd_member_command(const EtcdPlace& place, const std::string& job, const std::string& cluster,
                                             bool existing);

// Files in place.own->folder that the command names.
inline constexpr const char* kEtcdAuthority = "ca.pem";
inline constexpr const char* kEtcdCertificate = "member.pem";
inline constexpr const char* kEtcdKeyFile = "member.key";
inline constexpr const char* kEtcdData = "data";

// What is there when this one is to begin.
struct EtcdSurroundings {
  std::optional<std::vector<EtcdMemberFacts>> members;  // of the cluster as one of the others knows it
  std::size_t reached = 0;       // others whose host has answered at all, if only to refuse the connection
  std::size_t answered = 0;      // others that run
  std::uint16_t taken_port = 0;  // one of this member's, that somebody on this host has; 0: both are free
};
enum class EtcdBefore {
  none,
  anothers,  // a port was taken: most likely by the member of another agent on this host
  own,       // a member of this agent's
};
enum class EtcdStart {
  as_typed,  // with the others, for the first time
  add,       // to a cluster that has no such member
  replace,   // the one that was here: take it out, then add
  wait,      // too few hosts can be seen: the others may have a cluster that this one is no longer of
  stay_out,  // a member runs here already, of another agent: no other may have its place as long as it does
};
// `before`: what was here since this agent began.
EtcdStart judge_etcd_start(const EtcdPlace& place, const EtcdSurroundings& around, EtcdBefore before);
// Why this member is not among the others, who have answered a change with this error; one line.
std::string why_not_taken_in(const EtcdSurroundings& around, const std::string& error);
// In a list of members, the one of this node.
const EtcdMemberFacts* own_etcd_member(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members);

// Another one, that runs; null: none.
const EtcdMemberFacts* other_etcd_member(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members);

// Why etcd has ended, from the last lines of its log; one line.
std::string why_etcd_ended(const std::vector<std::string>& lines);

}  // namespace dtrain::launcher
