// See replica.h.
#include "examples/resnet/replica.h"

namespace resnet {
namespace {

class ParallelReplica : public Replica {
 public:
  ParallelReplica(dtrain::Session& session, const Build& build, double lr)
      : Replica(session), model_(session, build), adam_(model_.optimizer(dtrain::Adam{.lr = lr})) {}

  torch::Tensor forward(const torch::Tensor& x) override { return model_(x); }

  void step(const torch::Tensor& loss) override {
    model_.zero_grad();
    loss.backward();
    model_.step(adam_);
  }

  void save(const std::string& path) override {
    const auto full = model_.full_parameters();
    if (session_.is_first()) save_weights(model_.module(), path);
  }

  ResNetImpl& network() override { return model_.module(); }

 private:
  dtrain::Parallel<ResNetImpl> model_;
  dtrain::ShardedOptimizer adam_;
};

class HorovodReplica : public Replica {
 public:
  HorovodReplica(dtrain::Session& session, const Build& build, double lr)
      : Replica(session),
        context_(session),
        network_(build()),
        adam_(network_->parameters(), torch::optim::AdamOptions(lr)),
        optimizer_(context_, adam_, network_->named_parameters()) {
    dtrain::hvd::broadcast_parameters(session, *network_);
  }

  torch::Tensor forward(const torch::Tensor& x) override { return network_->forward(x); }

  void step(const torch::Tensor& loss) override {
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
  }

  void save(const std::string& path) override {
    if (session_.is_first()) save_weights(*network_, path);
  }

  ResNetImpl& network() override { return *network_; }

 private:
  dtrain::hvd::Context context_;
  ResNet network_;
  torch::optim::Adam adam_;
  dtrain::hvd::DistributedOptimizer optimizer_;
};

}  // namespace

void Replica::share_buffers() {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& buffer : network().buffers()) session_.broadcast(buffer);
}

std::unique_ptr<Replica> parallel_replica(dtrain::Session& session, const Build& build, double lr) {
  return std::make_unique<ParallelReplica>(session, build, lr);
}

std::unique_ptr<Replica> horovod_replica(dtrain::Session& session, const Build& build, double lr) {
  return std::make_unique<HorovodReplica>(session, build, lr);
}

}  // namespace resnet
