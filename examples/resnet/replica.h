#pragma once
// One process's network and its optimizer. The gradients are averaged over the processes in one of two ways, which
// differ in nothing else.
#include <functional>
#include <memory>
#include <string>

#include "dtrain/dtrain.h"
#include "examples/resnet/model.h"

namespace resnet {

using Build = std::function<ResNet()>;

class Replica {
 public:
  virtual ~Replica() = default;

  // Collective. In training mode, recorded, one step follows each.
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
  // Backward from the loss, with the mean of all processes' gradients, and Adam's update.
  virtual void step(const torch::Tensor& loss) = 0;
  // Collective: rank 0 writes the weights.
  virtual void save(const std::string& path) = 0;
  virtual ResNetImpl& network() = 0;

  // Collective: running means and variances become rank 0's. Each process has those of its own images until then.
  void share_buffers();

 protected:
  explicit Replica(dtrain::Session& session) : session_(session) {}
  dtrain::Session& session_;
};

// Collective: all processes get rank 0's weights. The first one trains as the launcher's --strategy says.
std::unique_ptr<Replica> parallel_replica(dtrain::Session& session, const Build& build, double lr);
std::unique_ptr<Replica> horovod_replica(dtrain::Session& session, const Build& build, double lr);

}  // namespace resnet
