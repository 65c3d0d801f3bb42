#pragma once
// Which nodes are neighbours: ranks that are close are mostly those that talk most. Pure.
#include <cstddef>
#include <string_view>
#include <vector>

namespace dtrain {

struct NodeSite {
  std::string_view topology;  // --topology, as its user wrote it
  std::string_view host;
};

// The positions of `nodes` in their new order: nodes of one topology follow each other, and of those the ones on one
// host, from where the first of them is. Who was before another in such an order stays so when nodes are taken out, or
// new ones are put at the end.
std::vector<std::size_t> neighbours(const std::vector<NodeSite>& nodes);

}  // namespace dtrain
