#pragma once
// Where the nodes of a job meet, if nobody has typed that: on node 0, at its addresses and a port of the job. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

// Below those that the kernel gives to connections.
inline constexpr std::uint16_t kFirstJobPort = 20000, kJobPorts = 9000;
// The same for all nodes of a job, and seldom that of another one.
std::uint16_t port_of_job(std::string_view run_id);

// FNV-1a, which goes on from another text's.
inline constexpr std::uint64_t kHashOfNothing = 14695981039346656037U;
std::uint64_t hash_of(std::string_view text, std::uint64_t before = kHashOfNothing);

// Node 0's addresses as another node sees them, for --rdzv-endpoint: one that this node has too is a bridge's, or leads
// to itself. Empty: none is left.
std::string endpoint_seen_from(const std::vector<std::string>& own, const std::vector<std::string>& of_node_0,
                               std::string_view port);
// The same for node 0 itself.
std::string endpoint_of_node_0(const std::vector<std::string>& addresses, std::string_view port);

}  // namespace dtrain::launcher
