#include "strategies/shard/backward_edges.h"

#include <torch/csrc/autograd/engine.h>

namespace dtrain {
namespace {

// Passes gradients on, and calls.
class Milestone final : public torch::autograd::Node {
 public:
  explicit Milestone(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    call_();
    return std::move(gradients);
  }

 private:
  std::function<void()> call_;
};

template <class Node, class... Args>
auto node_of(Args&&... args) {
  if constexpr (std::is_constructible_v<torch::autograd::Edge, std::shared_ptr<Node>, std::uint32_t>) {
    return std::make_shared<Node>(std::forward<Args>(args)...);
  } else {
    return c10::make_intrusive<Node>(std::forward<Args>(args)...);
  }
}

bool in_graph(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

}  // namespace

bool call_behind(const std::vector<at::Tensor*>& tensors, std::function<void()> call) {
  std::vector<at::Tensor*> joined;
  for (at::Tensor* tensor : tensors) {
    if (in_graph(*tensor)) joined.push_back(tensor);
  }
  if (joined.empty()) return false;
  const auto node = node_of<Milestone>(std::move(call));
  for (at::Tensor* tensor : joined) {
    at::Tensor same = tensor->detach();
    node->add_next_edge(torch::autograd::impl::gradient_edge(*tensor));
    const std::uint32_t place = node->add_input_metadata(same);
    torch::autograd::impl::set_gradient_edge(same, torch::autograd::Edge(node, place));
    *tensor = std::move(same);
  }
  return true;
}

bool call_before(const std::vector<at::Tensor*>& tensors, const std::function<void()>& call) {
  bool any = false;
  for (at::Tensor* tensor : tensors) {
    if (!in_graph(*tensor)) continue;
    any = true;
    tensor->register_hook([call](const at::Tensor&) { call(); });
  }
  return any;
}

void call_at_end(std::function<void()> call) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(call));
}

}  // namespace dtrain
