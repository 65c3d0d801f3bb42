#pragma once
// Tensors that are reduced together: copied into one buffer, through one collective, and copied out.
#include <c10/core/Event.h>

#include <map>

#include "dtrain/horovod.h"
#include "strategies/horovod/request_wire.h"
#include "strategies/horovod/timeline.h"

namespace dtrain::hvd {

// What whoever waits for a tensor gets: on a GPU, the moment on the background thread's stream.
struct Handle::Arrival {
  std::optional<c10::Event> copied_out;
};

// A tensor from its submission on.
struct Reduction {
  at::Tensor tensor;
  Request request;
  at::ScalarType wire = at::kFloat;  // its type while it is reduced
  double before = 1;                 // scales
  double after = 1;
  std::optional<c10::Event> written;  // on a GPU: on the stream of whoever submitted it
  Timeline::Moment submitted{};
  std::promise<std::shared_ptr<const Handle::Arrival>> done{};
};

// Throws c10::Error where the tensor or the options are not taken.
std::unique_ptr<Reduction> make_reduction(const at::Tensor& tensor, const std::string& name,
                                          const ReduceOptions& options, int ranks);
// The part of a rank that has joined in what the others asked for.
std::unique_ptr<Reduction> make_zeros(const Request& request, const at::Device& device);

class Fusion {
 public:
  // `timeline` may be null.
  Fusion(c10::intrusive_ptr<c10d::ProcessGroup> group, Timeline* timeline)
      : group_(std::move(group)), timeline_(timeline) {}

  // Collective: tensors of one type, device and operation. They have their results, on a GPU once the arrival has come.
  // Throws what the collective threw.
  std::shared_ptr<const Handle::Arrival> reduce(const std::vector<Reduction*>& part);

 private:
  at::Tensor buffer_for(const std::vector<Reduction*>& part);
  void collective(const at::Tensor& flat, const std::vector<Reduction*>& part);
  void record(const std::vector<Reduction*>& part, const char* what, Timeline::Moment& since) const;

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Timeline* const timeline_;
  std::map<std::pair<at::ScalarType, c10::DeviceType>, at::Tensor> buffers_;
  std::map<c10::DeviceType, c10::Stream> streams_;
};

}  // namespace dtrain::hvd
