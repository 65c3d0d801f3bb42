// broadcast; see host_collectives.h.
#include <algorithm>

#include "strategies/comm/hosts/host_collectives.h"

namespace dtrain {

void HostCollectives::broadcast(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root) {
  run(call, [&] {
    const Leaders ranks = leaders(root);
    if (leads(ranks)) broadcast_between(call, ranks, root, data, bytes);
    if (layered_) local_.broadcast_here(call, data, bytes, ranks[here_]);
  });
}

void HostCollectives::broadcast_between(const CollectiveCall& call, const Leaders& leaders, int root, std::byte* data,
                                        std::size_t bytes) {
  if (bytes > kWholeBytes && leaders.size() > 2) return broadcast_slices(call, leaders, root, data, bytes);
  Sends sends;
  Receives receives;
  if (rank_ != root) receives.push_back({root, {data, bytes}});
  for (const int leader : leaders) {
    if (rank_ == root && leader != root) sends.push_back({leader, {data, bytes}});
  }
  links_.exchange(call, sends, receives);
}

// The root sends each byte once, and the other leaders pass the bytes on to each other.
void HostCollectives::broadcast_slices(const CollectiveCall& call, Leaders leaders, int root, std::byte* data,
                                       std::size_t bytes) {
  std::erase(leaders, root);
  for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
    const std::size_t n = std::min(kChunkBytes, bytes - done);
    const auto slice = [&](std::size_t i) {
      const std::size_t begin = n * i / leaders.size(), end = n * (i + 1) / leaders.size();
      return std::span(data + done + begin, end - begin);
    };
    Sends first, second;
    Receives own, rest;
    for (std::size_t i = 0; i < leaders.size(); ++i) {
      if (rank_ == root) first.push_back({leaders[i], slice(i)});
      if (rank_ == leaders[i]) own.push_back({root, slice(i)});
    }
    links_.exchange(call, first, own);
    if (rank_ == root) continue;
    for (std::size_t i = 0; i < leaders.size(); ++i) {
      if (leaders[i] == rank_) continue;
      second.push_back({leaders[i], own.front().into});
      rest.push_back({leaders[i], slice(i)});
    }
    links_.exchange(call, second, rest);
  }
}

}  // namespace dtrain
