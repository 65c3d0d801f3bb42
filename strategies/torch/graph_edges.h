#pragma once
// Nodes that are put into autograd's graph between an operation and its results.
#include <algorithm>
#include <vector>

#include "strategies/torch/compat.h"

namespace dtrain {

// The gradients of these tensors, which the graph has, come through the node from now on. Each tensor becomes another
// one on the same memory: what the graph has saved of it does not lead back to the node. One may be named twice.
template <class NodePtr>
void lead_through(const NodePtr& node, const std::vector<at::Tensor*>& tensors) {
  for (auto each = tensors.begin(); each != tensors.end(); ++each) {
    if (std::find(tensors.begin(), each, *each) != each) continue;
    at::Tensor* const tensor = *each;
    at::Tensor same = tensor->detach();
    node->add_next_edge(torch::autograd::impl::gradient_edge(*tensor));
    const std::uint32_t place = node->add_input_metadata(same);
    torch::autograd::impl::set_gradient_edge(same, torch::autograd::Edge(node, place));
    *tensor = std::move(same);
  }
}

}  // namespace dtrain
