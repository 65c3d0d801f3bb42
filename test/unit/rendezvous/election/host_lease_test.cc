// How long a host is sure of itself, and which round it counts for; test/sim has the lease in bad networks.
#include "rendezvous/election/host_lease.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

const MonoTime kStart = MonoTime{} + 1h;
const PulseSettings kPulse;

}  // namespace

TEST_CASE("host lease: it lasts as long as the others are no majority") {
  HostLease lease(kPulse, 1);
  CHECK(lease.sure(kStart));  // nobody can choose another host yet
  lease.propose(0, {1, 2, 3, 4}, kStart);
  CHECK_FALSE(lease.settled());
  CHECK(lease.bound() == MonoTime::max());
  lease.echoed(2, kStart, 0, kStart + 100ms);
  CHECK(lease.settled());
  CHECK(lease.settled_round() == 0);
  CHECK(lease.bound() == kStart + 2s);
  lease.echoed(2, kStart - 1s, 0, kStart + 100ms);
  lease.echoed(3, kStart + 5s, 0, kStart + 200ms);  // it is none of this host's
  CHECK(lease.bound() == kStart + 2s);
  lease.echoed(4, kStart + 1s, 0, kStart + 1s);
  CHECK(lease.bound() == kStart + 3s);
}

TEST_CASE("host lease: who has left chooses nobody") {
  HostLease lease(kPulse, 1);
  lease.propose(0, {1, 2, 3, 4}, kStart);
  lease.echoed(2, kStart, 0, kStart);
  REQUIRE(lease.settled());
  lease.left(3, kStart + 1s);
  CHECK(lease.bound() == MonoTime::max());
  lease.propose(1, {1, 2}, kStart + 1s);  // of the last round's nodes 2 and 4 may not know of it
  CHECK(lease.settled_round() == 1);
}

TEST_CASE("host lease: a round is settled when those of the last one know it and its own are heard") {
  HostLease lease(kPulse, 1);
  lease.begin({{1, 2, 3}});
  lease.echoed(2, kStart, -1, kStart);
  lease.propose(5, {1, 4, 5}, kStart);
  CHECK(lease.earlier() == std::vector<VoterSet>{{1, 2, 3}});
  lease.echoed(4, kStart, 5, kStart);
  CHECK_FALSE(lease.settled());
  lease.echoed(3, kStart, 4, kStart);  // of another round
  CHECK_FALSE(lease.settled());
  lease.echoed(3, kStart, 5, kStart);
  CHECK(lease.settled());
  CHECK(lease.earlier().empty());
  // Alone, or with one other node, it needs nobody.
  lease.propose(6, {1}, kStart);
  lease.echoed(4, kStart, 6, kStart);
  CHECK(lease.settled_round() == 6);
  CHECK(lease.sure(kStart + 1h));
}
