// See replica.h.
#include "examples/resnet/replica.h"

namespace resnet {
namespace {

class DdpReplica : public Replica {
 public:
  DdpReplica(dtrain::Session& session, ResNet network, double lr)
      : Replica(session, std::move(network), lr), ddp_(session, network_) {}

  torch::Tensor forward(const torch::Tensor& x) override { return ddp_(x); }

  void step(const torch::Tensor& loss) override {
    ddp_.zero_grad();
    loss.backward();
    adam_.step();
  }

 private:
  dtrain::Ddp<ResNetImpl> ddp_;
};

class HorovodReplica : public Replica {
 public:
  HorovodReplica(dtrain::Session& session, ResNet network, double lr)
      : Replica(session, std::move(network), lr),
        context_(session),
        optimizer_(context_, adam_, network_->named_parameters()) {
    dtrain::hvd::broadcast_parameters(session, *network_);
  }

  torch::Tensor forward(const torch::Tensor& x) override { return network_->forward(x); }

  void step(const torch::Tensor& loss) override {
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
  }

 private:
  dtrain::hvd::Context context_;
  dtrain::hvd::DistributedOptimizer optimizer_;
};

}  // namespace

void Replica::share_buffers() {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& buffer : network_->buffers()) session_.broadcast(buffer);
}

std::unique_ptr<Replica> ddp_replica(dtrain::Session& session, ResNet network, double lr) {
  return std::make_unique<DdpReplica>(session, std::move(network), lr);
}

std::unique_ptr<Replica> horovod_replica(dtrain::Session& session, ResNet network, double lr) {
  return std::make_unique<HorovodReplica>(session, std::move(network), lr);
}

}  // namespace resnet
