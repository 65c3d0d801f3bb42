// See diverged.h. Each rank makes 64 bits of each parameter, and all compare those of all.
#include "strategies/ddp/diverged.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "dtrain/errors.h"
#include "strategies/torch/collectives.h"

namespace dtrain {
namespace {

// Any change of one word changes it; not against somebody who means to deceive.
std::int64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().to(at::kCPU).contiguous();
  const auto* bytes = static_cast<const std::byte*>(here.const_data_ptr());
  std::uint64_t hash = here.nbytes();
  for (std::size_t at = 0; at < here.nbytes(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), here.nbytes() - at));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace

void require_equal(const Group& group, const std::vector<NamedParameter>& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  at::Tensor own = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) own[i] = fingerprint(parameters[static_cast<std::size_t>(i)].tensor);
  at::Tensor all = at::empty({group.size() * count}, at::kLong);
  group.all_gather(all, own);
  const at::Tensor table = all.view({group.size(), count});
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<int> ranks;
    for (int r = 1; r < group.size(); ++r) {
      if (table[r][i].item<std::int64_t>() != table[0][i].item<std::int64_t>())
        ranks.push_back(group.ranks()[static_cast<std::size_t>(r)]);
    }
    if (ranks.empty()) continue;
    const std::string& name = parameters[static_cast<std::size_t>(i)].name;
    throw DivergedError(name, ranks,
                        fmt::format("parameter '{}' of rank {} is not that of rank {}: a rank changed its own, or its "
                                    "optimizer does other things than the others'",
                                    name, fmt::join(ranks, ", "), group.ranks().front()));
  }
}

}  // namespace dtrain
