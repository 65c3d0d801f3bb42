// gather and all_gather; see local_collectives.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/local/move_bytes.h"

namespace dtrain {

// An input that lies where another rank's part of the output will come is moved to its own part of the output first.
// Returns where the input lies then.
const std::byte* LocalCollectives::out_of_the_way(const std::byte* input, const std::vector<std::byte*>& outputs,
                                                  std::size_t bytes) const {
  const auto& members = steps_.members();
  std::byte* const own = outputs.empty() ? nullptr : outputs[static_cast<std::size_t>(steps_.rank)];
  const auto is_in_way = [&](int r) { return overlap({input, bytes}, {outputs[static_cast<std::size_t>(r)], bytes}); };
  if (outputs.empty() || input == own || std::none_of(members.begin(), members.end(), is_in_way)) return input;
  move_bytes(own, {input, bytes});
  return own;
}

void LocalCollectives::gather_here(const CollectiveCall& call, const std::byte* input,
                                   const std::vector<std::byte*>& outputs, std::size_t bytes) {
  input = out_of_the_way(input, outputs, bytes);
  if (reads_.reads(bytes) && gather_directly(call, input, outputs, bytes)) return;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min<std::size_t>(steps_.slot_bytes, bytes - done);
    steps_.begin(call);
    if (n > 0) std::memcpy(steps_.own_slot(), input + done, n);
    if (outputs.empty()) {
      steps_.go_ahead_or_sync(call, bytes);
    } else {
      steps_.sync_and_compare(call);
      move_bytes(outputs[static_cast<std::size_t>(steps_.rank)] + done, {input + done, n});
      for (const int r : steps_.members())
        if (r != steps_.rank) move_bytes(outputs[static_cast<std::size_t>(r)] + done, {steps_.slot(r), n});
    }
    done += n;
  } while (done < bytes);
}

bool LocalCollectives::gather_directly(const CollectiveCall& call, const std::byte* input,
                                       const std::vector<std::byte*>& outputs, std::size_t bytes) {
  const auto output = [&](int r) { return std::span(outputs[static_cast<std::size_t>(r)], bytes); };
  steps_.begin(call, DirectReads::place(input));
  steps_.sync_and_compare(call);
  if (!outputs.empty()) move_bytes(output(steps_.rank).data(), {input, bytes});
  bool well = true;
  for (const int r : steps_.members())
    if (!outputs.empty() && r != steps_.rank) well = well && reads_.read(call, r, steps_.place(r), output(r));
  return reads_.all_have_read(call, well);
}

}  // namespace dtrain
