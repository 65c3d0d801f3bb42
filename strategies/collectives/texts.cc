// See texts.h.
#include "strategies/collectives/texts.h"

#include <algorithm>
#include <cstring>

#include "strategies/collectives/collectives.h"

namespace dtrain {

std::vector<std::string> all_gather_texts(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                          const std::string& text) {
  const auto ranks = group->getSize();
  at::Tensor length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  at::Tensor lengths = at::empty({ranks}, at::kLong);
  all_gather(group, lengths, length);
  const auto longest = lengths.max().item<std::int64_t>();
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  if (longest == 0) return texts;
  at::Tensor own = at::zeros({longest}, at::kByte);
  std::memcpy(own.mutable_data_ptr(), text.data(), text.size());
  at::Tensor all = at::empty({ranks * longest}, at::kByte);
  all_gather(group, all, own);
  const auto* bytes = static_cast<const char*>(all.const_data_ptr());
  for (std::int64_t r = 0; r < ranks; ++r)
    texts[static_cast<std::size_t>(r)].assign(bytes + r * longest,
                                              static_cast<std::size_t>(lengths[r].item<std::int64_t>()));
  return texts;
}

}  // namespace dtrain
