#pragma once
// Ranks of one machine that take each other to be on several hosts, by what they say of themselves. They connect over
// the loopback.
#include <cstdlib>

#include "strategies/comm/groups/form_group.h"
#include "test/unit/strategies/ranks.h"

namespace dtrain::test {

inline const bool kOnLoopback = ::setenv("GLOO_SOCKET_IFNAME", "lo", 1) == 0;

// What a rank puts into the store, where a letter for each rank is its host: "aab" is two ranks on one and one on
// another.
inline std::string put_on(const std::string& letters, const std::string& key, const std::string& value) {
  if (key.find("peer/") != 0) return value;
  PeerFacts facts = parse_facts(value);
  facts.host = letters.at(std::stoul(key.substr(5)));
  facts.boot_id = "boot of " + facts.host;
  return serialize(facts);
}

class FakeHosts : public PassedOn {
 public:
  FakeHosts(GroupStore& place, std::string letters) : PassedOn(place), letters_(std::move(letters)) {}
  void put(const std::string& key, const std::string& value) override {
    PassedOn::put(key, put_on(letters_, key, value));
  }

 private:
  const std::string letters_;
};

inline std::unique_ptr<CommGroup> form_on(GroupStore& place, const std::string& letters, int rank,
                                          std::uint32_t slot_bytes, std::chrono::milliseconds timeout) {
  FakeHosts hosts(place, letters);
  return form_group(hosts, {rank, static_cast<int>(letters.size()), slot_bytes, timeout});
}

}  // namespace dtrain::test
