// Adasum among ranks of several hosts, whose messages go over connections.
#include "strategies/horovod/adasum.h"
#include "test/parity/hvd_cases.h"
#include "test/unit/strategies/hosts_store.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

at::Tensor adasum_on(Session& session, const std::string& letters, at::ScalarType type) {
  FormedGroup formed = form_on_hosts(session, letters);
  torch::manual_seed(session.rank());
  const std::vector<std::int64_t> sizes{1, 70'000, 0, 1000};
  const at::Tensor gradients = at::randn({71'001}, at::kDouble).to(type);
  hvd::adasum(formed.group, gradients, sizes);
  session.barrier();
  formed.shutdown();
  return gradients;
}

}  // namespace

TEST_CASE("hvd: adasum between hosts gives the bits that it gives on one") {
  const std::string letters = GENERATE("ab", "aabb", "abcd", "abab");
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  require_all_said(hvd_ranks(static_cast<int>(letters.size()),
                             [&](Session& session) -> std::string {
                               const at::Tensor here = adasum_on(session, std::string(letters.size(), 'a'), type);
                               const at::Tensor between = adasum_on(session, letters, type);
                               return at::equal(here, between) ? "equal" : "different";
                             }),
                   "equal");
}
