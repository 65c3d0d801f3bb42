#pragma once
// One process's copy of the network and its optimizer. The gradients are averaged over the processes by one of two
// strategies, which differ in nothing else.
#include <memory>

#include "dtrain/dtrain.h"
#include "examples/resnet/model.h"

namespace resnet {

class Replica {
 public:
  virtual ~Replica() = default;

  // In training mode, recorded. Collective; one step follows each.
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
  // Backward from the loss, with the mean of all processes' gradients, and Adam's update.
  virtual void step(const torch::Tensor& loss) = 0;

  ResNetImpl& network() { return *network_; }
  // Collective: running means and variances become rank 0's. Each process has those of its own images until then.
  void share_buffers();

 protected:
  Replica(dtrain::Session& session, ResNet network, double lr)
      : session_(session), network_(std::move(network)), adam_(network_->parameters(), torch::optim::AdamOptions(lr)) {}

  dtrain::Session& session_;
  ResNet network_;
  torch::optim::Adam adam_;
};

// Collective: all processes get rank 0's weights.
std::unique_ptr<Replica> ddp_replica(dtrain::Session& session, ResNet network, double lr);
std::unique_ptr<Replica> horovod_replica(dtrain::Session& session, ResNet network, double lr);

}  // namespace resnet
