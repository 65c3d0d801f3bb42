// Words for origins; see call_origin.h.
#include "strategies/comm/base/call_origin.h"

#include <fmt/format.h>

namespace dtrain {

constinit thread_local CallOrigin CallOrigin::of_thread;

std::string CallOrigin::text() const {
  switch (kind) {
    case Kind::program:
      return "";
    case Kind::ddp_construction:
      return "Ddp construction";
    case Kind::ddp_backward: {
      const std::string of = buckets == 0 ? "" : fmt::format(" of {}", buckets);
      return fmt::format("Ddp backward, bucket {}{}", bucket, of);
    }
    case Kind::ddp_unused:
      return "Ddp backward: unused parameters";
    case Kind::ddp_bucket_order:
      return "Ddp forward: order of buckets";
    case Kind::ddp_buffers:
      return "Ddp forward: buffers";
    case Kind::ddp_verify_sync:
      return "Ddp: verify_sync";
    case Kind::ddp_join:
      return "Ddp: join";
    case Kind::hvd_context:
      return "hvd::Context";
    case Kind::hvd_parameters:
      return "hvd::broadcast_parameters";
    case Kind::hvd_optimizer_state:
      return "hvd::broadcast_optimizer_state";
    case Kind::new_group:
      return "forming a group";
    case Kind::group_end:
      return "Group::end()";
    case Kind::shutdown:
      return "shutdown()";
    case Kind::call_check:
      return "check of calls";
  }
  return "";
}

}  // namespace dtrain
