// all_gather and gather; see host_collectives.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/hosts/host_collectives.h"

namespace dtrain {
namespace {

// How much of an all_gather's result is broadcast within a host at a time.
constexpr std::size_t kPackBytes = 1U << 20;

}  // namespace

void HostCollectives::all_gather(const CollectiveCall& call, const std::byte* input,
                                 const std::vector<std::byte*>& outputs, std::size_t bytes) {
  run(call, [&] {
    const Leaders ranks = leaders();
    local_.gather_here(call, input, outputs, bytes);
    if (leads(ranks)) {
      Sends sends;
      Receives receives;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (host == here_) continue;
        for (const int r : members()) sends.push_back({ranks[host], {outputs[index(r)], bytes}});
        for (const int r : hosts_[host]) receives.push_back({ranks[host], {outputs[index(r)], bytes}});
      }
      links_.exchange(call, sends, receives);
    }
    if (layered_) broadcast_gathered(call, ranks[here_], outputs, bytes);
  });
}

// What the leader has of ranks of other hosts, for the ranks of this host: a part of each rank's at a time, so that
// small messages do not need a step each.
void HostCollectives::broadcast_gathered(const CollectiveCall& call, int leader, const std::vector<std::byte*>& outputs,
                                         std::size_t bytes) {
  const std::vector<int> ranks = others();
  const std::size_t step = std::max<std::size_t>(1, kPackBytes / ranks.size());
  std::vector<std::byte> packed;
  for (std::size_t done = 0; done < bytes; done += step) {
    const std::size_t n = std::min(step, bytes - done);
    packed.resize(n * ranks.size());
    for (std::size_t i = 0; i < ranks.size() && rank_ == leader; ++i)
      std::memcpy(packed.data() + i * n, outputs[index(ranks[i])] + done, n);
    local_.broadcast_here(call, packed.data(), packed.size(), leader);
    for (std::size_t i = 0; i < ranks.size() && rank_ != leader; ++i)
      std::memcpy(outputs[index(ranks[i])] + done, packed.data() + i * n, n);
  }
}

void HostCollectives::gather(const CollectiveCall& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                             std::size_t bytes, int root) {
  run(call, [&] {
    if (!is_here(root)) return links_.exchange(call, {{root, {input, bytes}}}, {});
    local_.gather_here(call, input, outputs, bytes);
    if (rank_ != root) return;
    Receives receives;
    for (const int r : others()) receives.push_back({r, {outputs[index(r)], bytes}});
    links_.exchange(call, {}, receives);
  });
}

}  // namespace dtrain
