// broadcast; see local_collectives.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/local/local_collectives.h"

namespace dtrain {
namespace {

// A larger broadcast goes through slots: in each step the root copies the next part while the others copy this one,
// and if the others read the root's memory, the root has nothing to do.
constexpr std::size_t kMostDirectBroadcast = 512 * 1024;

}  // namespace

void LocalCollectives::broadcast_here(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root) {
  if (reads_.reads(bytes) && bytes <= kMostDirectBroadcast && broadcast_directly(call, data, bytes, root)) return;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(steps_.slot_bytes, bytes - done);
    steps_.begin(call);
    if (steps_.rank == root) {
      if (n > 0) std::memcpy(steps_.own_slot(), data + done, n);
      steps_.go_ahead_or_sync(call, bytes);
    } else {
      steps_.sync_and_compare(call);
      if (n > 0) std::memcpy(data + done, steps_.slot(root), n);
    }
    done += n;
  } while (done < bytes);
}

bool LocalCollectives::broadcast_directly(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root) {
  const bool is_root = steps_.rank == root;
  steps_.begin(call, is_root ? DirectReads::place(data) : 0);
  steps_.sync_and_compare(call);
  return reads_.all_have_read(call, is_root || reads_.read(call, root, steps_.place(root), {data, bytes}));
}

}  // namespace dtrain
