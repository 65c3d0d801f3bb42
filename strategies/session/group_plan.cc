// See group_plan.h.
#include "strategies/session/group_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dtrain/worker_env.h"

namespace dtrain {

std::string disagreement(const std::vector<std::string>& calls) {
  const auto other = std::find_if(calls.begin(), calls.end(), [&](const auto& call) { return call != calls.front(); });
  if (other == calls.end()) return "";
  return fmt::format(
      "dtrain: the ranks do not agree on a group: rank {} says {}, rank 0 says {}; every rank of the "
      "session makes the same calls in the same order",
      other - calls.begin(), *other, calls.front());
}

std::string call_of(const std::vector<int>& ranks) { return fmt::format("new_group([{}])", fmt::join(ranks, ", ")); }

std::string why_no_group(const std::vector<int>& ranks, int world_size) {
  if (ranks.empty()) return fmt::format("dtrain: {}: a group needs a rank", call_of(ranks));
  for (auto one = ranks.begin(); one != ranks.end(); ++one) {
    if (*one < 0 || *one >= world_size)
      return fmt::format("dtrain: {}: there is no rank {}; ranks are 0 to {}", call_of(ranks), *one, world_size - 1);
    if (std::find(ranks.begin(), one, *one) != one)
      return fmt::format("dtrain: {}: rank {} is named twice", call_of(ranks), *one);
  }
  return "";
}

std::string text_of(const std::optional<int>& colour) { return colour ? std::to_string(*colour) : ""; }

std::vector<int> same_colour(const std::vector<std::string>& colours, int rank) {
  const std::string& own = colours[static_cast<std::size_t>(rank)];
  std::vector<int> ranks;
  for (std::size_t r = 0; r < colours.size(); ++r) {
    if (!own.empty() && colours[r] == own) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

int gpu_for(int local_rank, int gpus) {
  if (gpus == 1) return 0;
  if (local_rank < gpus) return local_rank;
  throw ConfigError(fmt::format(
      "dtrain: LOCAL_RANK is {} and this process sees {} GPUs: start as many ranks as there are GPUs (--nproc gpu), or "
      "let each see one (CUDA_VISIBLE_DEVICES); ranks that share one each need an NCCL_HOSTID of their own",
      local_rank, gpus));
}

}  // namespace dtrain
