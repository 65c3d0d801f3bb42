// Who can share memory with whom, and the words for failures.
#include "strategies/comm/bootstrap/peers.h"

#include <unistd.h>

#include "strategies/comm/base/failure.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("facts survive the store") {
  const PeerFacts own = own_facts();
  const PeerFacts read = parse_facts(serialize(own));
  CHECK(read.host == own.host);
  CHECK(read.boot_id == own.boot_id);
  CHECK(read.pid_namespace == own.pid_namespace);
  CHECK(read.pid == own.pid);
  CHECK(read.uid == own.uid);
  CHECK(read.proc_pid == own.proc_pid);
  CHECK(read.user_namespace == own.user_namespace);
  CHECK(read.rights == own.rights);
  CHECK(read.cores == own.cores);
  CHECK(have_cores({own}, 0));
  CHECK(own.user_namespace.find("user:[") == 0);
  CHECK(own.rights.size() > 40);
  PeerFacts apart = own;
  apart.apart = true;
  CHECK(parse_facts(serialize(apart)).apart);
  CHECK(own.boot_id.size() == 36);
  CHECK_THROWS(parse_facts("nonsense"));
}

TEST_CASE("ranks share memory only on one host and in one PID namespace, whatever their names say") {
  const PeerFacts here{"node1", "boot-a", "pid:[1]", 10, 1000, 10};
  PeerFacts same = here;
  same.pid = 11;
  PeerFacts other_host = here;
  other_host.boot_id = "boot-b";
  PeerFacts container = here;
  container.pid_namespace = "pid:[2]";
  PeerFacts other_user = here;
  other_user.uid = 0;
  using Hosts = std::vector<std::vector<int>>;
  CHECK(by_host({here, same}) == Hosts{{0, 1}});
  CHECK(by_host({here, same, other_host}) == Hosts{{0, 1}, {2}});
  CHECK(by_host({here, other_host, same, container, other_host}) == Hosts{{0, 2}, {1, 4}, {3}});
  CHECK(by_host({here, other_user}) == Hosts{{0}, {1}});
  PeerFacts nested = here;
  nested.user_namespace = "user:[2]";
  PeerFacts capable = here;
  capable.rights = "00000000000000ff";
  CHECK(by_host({here, nested, same, nested, capable}) == Hosts{{0, 2}, {1, 3}, {4}});
  PeerFacts apart = here;
  apart.apart = true;
  CHECK(by_host({here, apart, same, apart}) == Hosts{{0, 2}, {1}, {3}});
  PeerFacts masked = here;
  masked.boot_id = "";
  CHECK(by_host({masked, here, masked, same}) == Hosts{{0}, {1, 3}, {2}});
}

TEST_CASE("ranks have cores where each that may run there has one to itself, in whatever container") {
  const auto on = [](const std::string& cores) {
    return PeerFacts{"node1", "boot-a", "pid:[1]", 10, 1000, 10, "user:[1]", "", false, cores};
  };
  CHECK(have_cores({on("3"), on("3")}, 0));
  CHECK_FALSE(have_cores({on("3"), on("3"), on("3")}, 2));
  PeerFacts container = on("3");
  container.pid_namespace = "pid:[2]";
  CHECK_FALSE(have_cores({on("3"), container, on("3")}, 0));
  PeerFacts other_host = on("3");
  other_host.boot_id = "boot-b";
  CHECK(have_cores({on("3"), other_host, on("3")}, 0));
  CHECK(have_cores({on("1"), on("2"), on("4"), on("8")}, 3));
  CHECK_FALSE(have_cores({on("1"), on("2"), on("1")}, 0));
  CHECK(have_cores({on("1"), on("2"), on("1")}, 1));
  CHECK(have_cores({on("f0000000,00000000"), on("00000000,0000000f"), on("ff000000,00000000")}, 2));
  CHECK_FALSE(have_cores({on("10,00000000"), on("1,00000000"), on("30,00000000"), on("20,00000000")}, 2));
  CHECK_FALSE(have_cores({on("")}, 0));
  CHECK_FALSE(have_cores({on("1"), on("")}, 0));
  PeerFacts masked = on("1");
  masked.boot_id = "";
  CHECK(have_cores({masked, masked}, 0));
}

TEST_CASE("ranks have no cores of their own where they have less time than that together") {
  const auto in = [](const std::string& container, int quota, const std::string& cgroup = "/job") {
    return PeerFacts{"node1", "boot-a", container, 10, 1000, 10, "user:[1]", "", false, "ff", {quota, cgroup}};
  };
  CHECK(have_cores({in("pid:[1]", 2), in("pid:[1]", 2)}, 0));
  CHECK_FALSE(have_cores({in("pid:[1]", 2), in("pid:[1]", 2), in("pid:[1]", 2)}, 0));
  CHECK(have_cores({in("pid:[1]", 2), in("pid:[2]", 2), in("pid:[1]", 2), in("pid:[2]", 2)}, 0));
  CHECK(have_cores({in("pid:[1]", 0), in("pid:[2]", 1), in("pid:[1]", 0)}, 0));
  CHECK(have_cores({in("pid:[1]", 1, "/one"), in("pid:[1]", 1, "/two")}, 0));
  const CoreQuota read = parse_facts(serialize(in("pid:[1]", 3))).quota;
  CHECK(read.cores == 3);
  CHECK(read.cgroup == "/job");
}

TEST_CASE("a segment opened with the wrong token is refused") {
  const ShmSegment segment = ShmSegment::create(2, 4096, 42);
  CHECK_NOTHROW(ShmSegment::open(::getpid(), segment.fd(), 42));
  CHECK_THROWS_WITH(ShmSegment::open(::getpid(), segment.fd(), 43), Catch::Contains("not the group's shared memory"));
  CHECK_THROWS_WITH(ShmSegment::open(::getpid(), 9999, 42), Catch::Contains("No such file"));
}

TEST_CASE("a failure fits one word that is never zero") {
  for (const int rank : {0, 1, 4095, (1 << 24) - 1}) {
    for (const FailureKind kind : {FailureKind::peer_died, FailureKind::aborted}) {
      const std::uint32_t word = encode({kind, rank});
      CHECK(word != 0);
      CHECK(decode_failure(word).kind == kind);
      CHECK(decode_failure(word).rank == rank);
    }
  }
}
