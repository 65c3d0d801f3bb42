// Adasum among ranks of several hosts, whose messages go over connections.
#include "strategies/horovod/adasum.h"
#include "strategies/session/group.h"
#include "test/parity/hvd_cases.h"
#include "test/unit/strategies/fake_hosts.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

// Its ranks take each other to be on the hosts of these letters.
class HostsStore : public c10d::PrefixStore {
 public:
  HostsStore(const c10::intrusive_ptr<c10d::Store>& store, std::string letters)
      : PrefixStore(letters, store), letters_(std::move(letters)) {}
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    const std::string group = "shm/", own = key.find(group) == 0 ? key.substr(group.size()) : key;
    const std::string text = put_on(letters_, own, {value.begin(), value.end()});
    PrefixStore::set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  using PrefixStore::set;

 private:
  const std::string letters_;
};

at::Tensor adasum_on(Session& session, const std::string& letters, at::ScalarType type) {
  auto keys = c10::make_intrusive<HostsStore>(session.store(), letters);
  GroupPlace place;
  place.rank = session.rank();
  place.ranks = session.world_size();
  place.timeout = std::chrono::seconds{20};
  FormedGroup formed = form_group(keys, place, letters);
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
