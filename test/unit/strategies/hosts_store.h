#pragma once
// A group of a session's ranks that take each other to be on several hosts (fake_hosts.h).
#include "dtrain/session.h"
#include "strategies/session/process_groups.h"
#include "test/unit/strategies/fake_hosts.h"

namespace dtrain::test {

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

inline FormedGroup form_on_hosts(Session& session, const std::string& letters) {
  GroupPlace place;
  place.rank = session.rank();
  place.ranks = session.world_size();
  place.timeout = std::chrono::seconds{20};
  return form_process_group(c10::make_intrusive<HostsStore>(session.store(), letters), place, letters);
}

}  // namespace dtrain::test
