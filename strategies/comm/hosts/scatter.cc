// scatter; see host_collectives.h.
#include "strategies/comm/hosts/host_collectives.h"

namespace dtrain {

void HostCollectives::scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs,
                              std::byte* output, std::size_t bytes, int root) {
  run(call, [&] {
    if (!is_here(root)) return links_.exchange(call, {}, {{root, {output, bytes}}});
    local_.scatter_here(call, inputs, output, bytes, root);
    if (rank_ != root) return;
    Sends sends;
    for (const int r : others()) sends.push_back({r, {inputs[index(r)], bytes}});
    links_.exchange(call, sends, {});
  });
}

}  // namespace dtrain
