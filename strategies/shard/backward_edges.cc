#include "strategies/shard/backward_edges.h"

#include "strategies/torch/graph_edges.h"

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

bool in_graph(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

}  // namespace

bool call_behind(const std::vector<at::Tensor*>& tensors, std::function<void()> call) {
  std::vector<at::Tensor*> joined;
  for (at::Tensor* tensor : tensors) {
    if (in_graph(*tensor)) joined.push_back(tensor);
  }
  if (joined.empty()) return false;
  lead_through(make_node<Milestone>(std::move(call)), joined);
  return true;
}

bool call_before(const std::vector<at::Tensor*>& tensors, const std::function<void()>& call) {
  bool any = false;
  for (at::Tensor* tensor : tensors) {
    if (!in_graph(*tensor)) continue;
    any = true;
    lead_through(make_node<Milestone>(call), {tensor});
  }
  return any;
}

}  // namespace dtrain
