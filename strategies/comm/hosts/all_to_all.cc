// all_to_all; see host_collectives.h.
#include "strategies/comm/hosts/host_collectives.h"

namespace dtrain {

void HostCollectives::all_to_all(const CollectiveCall& call, Inputs inputs, Outputs outputs) {
  run(call, [&] {
    local_.all_to_all_here(call, inputs, outputs);
    Sends sends;
    Receives receives;
    for (const int r : others()) {
      sends.push_back({r, inputs[index(r)]});
      receives.push_back({r, outputs[index(r)]});
    }
    links_.exchange(call, sends, receives);
  });
}

}  // namespace dtrain
