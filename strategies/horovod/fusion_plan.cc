// See fusion_plan.h.
#include "strategies/horovod/fusion_plan.h"

#include <map>
#include <tuple>

namespace dtrain::hvd {

std::vector<std::vector<std::size_t>> plan_fusion(const std::vector<Request>& ready, std::int64_t threshold) {
  struct Open {
    std::size_t part;
    std::int64_t bytes;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Open> open;
  std::vector<std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const Request& request = ready[i];
    const auto [at, first] = open.try_emplace({request.type, request.device, request.op}, Open{parts.size(), 0});
    Open& last = at->second;
    if (!first && last.bytes + request.bytes > threshold) last = {parts.size(), 0};
    if (last.part == parts.size()) parts.emplace_back();
    parts[last.part].push_back(i);
    last.bytes += request.bytes;
  }
  return parts;
}

}  // namespace dtrain::hvd
