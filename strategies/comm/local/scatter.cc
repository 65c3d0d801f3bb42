// scatter; see local_collectives.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/local/move_bytes.h"
#include "strategies/comm/memory/cache_line.h"

namespace dtrain {

void LocalCollectives::scatter_here(const CollectiveCall& call, const std::vector<const std::byte*>& inputs,
                                    std::byte* output, std::size_t bytes, int root) {
  if (reads_.reads(bytes) && scatter_directly(call, inputs, output, bytes, root)) return;
  // The root's slot holds the step's bytes for every member, one part after another.
  const std::size_t step = std::max<std::size_t>(1, lines_in(steps_.slot_bytes / steps_.members().size()));
  const auto in_slot = [&](int to, std::size_t n) { return steps_.slot(root) + steps_.seat(to) * lines_for(n); };
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, bytes - done);
    steps_.begin(call);
    if (steps_.rank == root) {
      for (const int r : steps_.members())
        if (n > 0) std::memcpy(in_slot(r, n), inputs[static_cast<std::size_t>(r)] + done, n);
      steps_.go_ahead_or_sync(call, bytes);
    } else {
      steps_.sync_and_compare(call);
    }
    if (n > 0) std::memcpy(output + done, in_slot(steps_.rank, n), n);
    done += n;
  } while (done < bytes);
}

// The root's slot holds where each member's part lies.
bool LocalCollectives::scatter_directly(const CollectiveCall& call, const std::vector<const std::byte*>& inputs,
                                        std::byte* output, std::size_t bytes, int root) {
  const bool is_root = steps_.rank == root;
  steps_.begin(call);
  const auto entry = [&](int r) { return steps_.slot(root) + steps_.seat(r) * sizeof(std::uint64_t); };
  if (is_root) {
    for (const int r : steps_.members()) {
      const std::uint64_t at = DirectReads::place(inputs[static_cast<std::size_t>(r)]);
      std::memcpy(entry(r), &at, sizeof at);
    }
  }
  steps_.sync_and_compare(call);
  std::uint64_t at = 0;
  std::memcpy(&at, entry(steps_.rank), sizeof at);
  const bool all = reads_.all_have_read(call, is_root || reads_.read(call, root, at, {output, bytes}));
  if (all && is_root) move_bytes(output, {inputs[static_cast<std::size_t>(steps_.rank)], bytes});
  return all;
}

}  // namespace dtrain
