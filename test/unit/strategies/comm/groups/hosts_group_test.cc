// Collectives among ranks of several hosts, by real processes over the loopback: what they say of themselves puts them
// on different hosts.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "strategies/comm/groups/monitored_barrier.h"
#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"
#include "test/unit/strategies/fake_hosts.h"

using namespace dtrain;
using test::error_of;
using test::harmed;
using test::kTimeout;
using test::Layout;
using test::require_all_returned;
using test::run_ranks;
using test::SharedBoard;

namespace {

Layout layout(const std::string& letters) {
  std::vector<PeerFacts> facts(letters.size());
  for (std::size_t r = 0; r < letters.size(); ++r) facts[r] = {"", std::string(1, letters[r]), "pid:[1]", 0, 0, 0};
  return by_host(facts);
}

std::unique_ptr<CommGroup> form(GroupStore& place, const std::string& letters, int rank,
                                std::chrono::milliseconds timeout = kTimeout) {
  return test::form_on(place, letters, rank, 16'384, timeout);
}

test::Forming forming(const std::string& letters) {
  return [letters](GroupStore& place, int rank, int) { return form(place, letters, rank); };
}

// Every rank runs `check` and says what it found wrong; nothing may be.
void require_right(const std::string& letters, const std::function<std::string(CommGroup&, int rank)>& check) {
  CAPTURE(letters);
  SharedBoard board;
  const auto outcomes = run_ranks(
      static_cast<int>(letters.size()),
      [&](int rank) {
        const auto group = form(board, letters, rank);
        std::string wrong = check(*group, rank);
        group->barrier(kTimeout);
        return wrong;
      },
      std::chrono::seconds{120});
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

std::vector<int> listening_ports() {
  std::vector<int> ports;
  for (int fd = 0; fd < 256; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) ports.push_back(fd);
  }
  return ports;
}

}  // namespace

TEST_CASE("over hosts all_reduce gives the reference's bits on every rank, for every type, reduction and size") {
  const std::string letters = GENERATE("ab", "abc", "abcde", "aab", "abb", "aabb", "abab");
  require_right(letters,
                [&](CommGroup& group, int rank) { return test::check_every_type(group, rank, layout(letters)); });
}

TEST_CASE("over hosts the other collectives move and reduce the right bytes") {
  const std::string letters = GENERATE("ab", "abc", "abcd", "aab", "abb", "aabbc", "abab");
  const Layout hosts = layout(letters);
  require_right(letters, [&](CommGroup& group, int rank) {
    return test::check_moves(group, rank, hosts) + test::check_rooted(group, rank, hosts) +
           test::check_all_to_all(group, rank, static_cast<int>(letters.size()));
  });
}

TEST_CASE("over hosts messages of many chunks arrive whole") {
  const std::string letters = GENERATE("ab", "abc", "aabc");
  const Layout hosts = layout(letters);
  constexpr std::size_t kCount = 2'500'013;  // 10 MB: more than a chunk
  require_right(letters, [&](CommGroup& group, int rank) -> std::string {
    const int ranks = static_cast<int>(letters.size());
    std::vector<float> data(kCount);
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    const auto fill = [&] {
      for (std::size_t i = 0; i < kCount; ++i) data[i] = test::input<float>(rank, i);
    };
    const auto differs = [&](const auto& value) {
      for (std::size_t i = 0; i < kCount; ++i)
        if (data[i] != value(i)) return true;
      return false;
    };
    const auto sum = [&](std::size_t i) { return test::expected<float>(Reduction::sum, hosts, i); };
    std::string wrong;
    fill();
    group.all_reduce(bytes, kCount, ElementType::f32, Reduction::sum, kTimeout);
    if (differs(sum)) wrong += "all_reduce; ";
    fill();
    group.reduce(bytes, kCount, ElementType::f32, Reduction::sum, ranks - 1, kTimeout);
    if (rank == ranks - 1 && differs(sum)) wrong += "reduce; ";
    if (rank != ranks - 1 && differs([&](std::size_t i) { return test::input<float>(rank, i); }))
      wrong += "reduce changed what is not the root's; ";
    fill();
    group.broadcast(bytes, kCount * sizeof(float), 1, kTimeout);
    if (differs([](std::size_t i) { return test::input<float>(1, i); })) wrong += "broadcast; ";
    return wrong;
  });
}

TEST_CASE("over hosts an average of large float16 numbers is no infinity") {
  require_right("aabb", [](CommGroup& group, int) -> std::string {
    c10::Half value = 40'000.0F;
    group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f16, Reduction::avg, kTimeout);
    return static_cast<float>(value) == 40'000.0F ? "" : std::to_string(static_cast<float>(value));
  });
}

TEST_CASE("ranks of one host form a group that opens no port, those of several one that leaves none open") {
  const std::string letters = GENERATE("aaa", "aab");
  require_right(letters, [&](CommGroup& group, int) -> std::string {
    if (group.spans_hosts() != (letters == "aab")) return "another kind of group";
    return listening_ports().empty() ? "" : "a port is open";
  });
}

TEST_CASE("over hosts ranks that leave as soon as their group is formed keep none from forming it") {
  const std::string letters = GENERATE("aab", "aaab", "aabb");
  for (int turn = 0; turn < 20; ++turn) {
    SharedBoard board;
    const auto outcomes = run_ranks(static_cast<int>(letters.size()), [&](int rank) -> std::string {
      form(board, letters, rank);
      return "";
    });
    require_all_returned(outcomes);
  }
}

TEST_CASE("over hosts a rank that is killed is named by all others within a second") {
  const std::string letters = GENERATE("ab", "abc", "aab", "aabb", "abab");
  const int ranks = static_cast<int>(letters.size());
  const int victim = GENERATE(0, 1, 2, 3);
  if (victim >= ranks) return;
  const auto outcomes = harmed(
      forming(letters), ranks, victim, [](CommGroup&) { ::raise(SIGKILL); }, std::chrono::milliseconds{10'000});
  for (int r = 0; r < ranks; ++r) {
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(letters, r, victim, outcome.said);
    if (r == victim) {
      CHECK(outcome.signal == SIGKILL);
    } else {
      CHECK(outcome.said.find(test::start_of(FailureKind::peer_died, victim)) == 0);
      CHECK(outcome.seconds < 5.0);
    }
  }
}

TEST_CASE("over hosts a rank that is killed is named while a child that it has forked lives on") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto group = test::form_on(board, "ab", rank, 64 * 1024, kTimeout);
    group->barrier(kTimeout);
    if (rank == 1) {
      if (::fork() != 0) ::raise(SIGKILL);
      board.take("named", std::chrono::steady_clock::now() + 3 * kTimeout);
      ::_exit(0);
    }
    std::string said;
    try {
      group->barrier(kTimeout);
    } catch (const CollectiveError& error) {
      said = test::start_of(error.kind(), error.rank());
    }
    board.put("named", "yes");
    return said;
  });
  CHECK(outcomes[0].said == test::start_of(FailureKind::peer_died, 1));
}

TEST_CASE("over hosts a rank that leaves is told apart from one that died, and an abort reaches all") {
  const std::string letters = GENERATE("ab", "aab", "aabb");
  const int ranks = static_cast<int>(letters.size());
  const int victim = GENERATE(0, 1);
  const bool aborts = GENERATE(false, true);
  const auto outcomes = harmed(
      forming(letters), ranks, victim,
      [aborts](CommGroup& group) {
        if (aborts) group.abort();
      },
      kTimeout);
  for (int r = 0; r < ranks; ++r) {
    if (r == victim) continue;
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(letters, victim, aborts, r, outcome.said);
    const FailureKind kind = aborts ? FailureKind::aborted : FailureKind::peer_left;
    CHECK(outcome.said.find(test::start_of(kind, victim)) == 0);
    CHECK(outcome.seconds < 5.0);
  }
}

TEST_CASE("over hosts a rank that does not come is named by all at the deadline") {
  const std::string letters = GENERATE("ab", "aab", "aabb");
  const int ranks = static_cast<int>(letters.size());
  const int victim = GENERATE(0, 1);
  const auto outcomes = harmed(
      forming(letters), ranks, victim, [](CommGroup&) { ::kill(::getpid(), SIGSTOP); }, std::chrono::milliseconds{700},
      std::chrono::seconds{4});
  for (int r = 0; r < ranks; ++r) {
    if (r == victim) continue;
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(letters, victim, r, outcome.said);
    CHECK(outcome.said.find(test::start_of(FailureKind::timed_out, victim)) == 0);
  }
}

TEST_CASE("on one host and over several a monitored barrier names all that did not come, to those that did") {
  const std::string letters = GENERATE("aaaa", "abab", "aabb");
  const bool first_is_missing = GENERATE(false, true);
  CAPTURE(letters, first_is_missing);
  const auto is_missing = [&](int rank) { return first_is_missing ? rank == 0 : rank % 2 == 1; };
  SharedBoard board;
  const auto outcomes = run_ranks(4, [&](int rank) {
    const auto group = form(board, letters, rank);
    monitored_barrier(*group, rank, 4, kTimeout);
    monitored_barrier(*group, rank, 4, kTimeout);
    std::string said;
    if (!is_missing(rank)) said = error_of([&] { monitored_barrier(*group, rank, 4, std::chrono::milliseconds{500}); });
    board.put("over/" + std::to_string(rank), "");  // who is missing lives, and does something else
    for (int r = 0; r < 4; ++r) board.take("over/" + std::to_string(r), ShmWait::after(kTimeout));
    return said;
  });
  require_all_returned(outcomes);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string& said = outcomes[static_cast<std::size_t>(rank)].said;
    CAPTURE(rank, said);
    const std::string culprit = first_is_missing ? "0" : "1";
    const bool named = said.find("dtrain: monitored_barrier: rank " + culprit + " (pid ") == 0;
    CHECK(named == !is_missing(rank));
    CHECK((said.find("did not arrive in time") != std::string::npos) == named);
    const bool knows_all = said.find("after 500 ms these are missing: rank 1, rank 3") != std::string::npos;
    CHECK(knows_all == (rank == 0 && !first_is_missing));
  }
}

TEST_CASE("over hosts ranks that call different collectives are told which") {
  const std::string letters = GENERATE("ab", "aabb");
  const int victim = static_cast<int>(letters.size()) / 2;  // the first of the other host, with which it agrees
  const int ranks = static_cast<int>(letters.size());
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    const auto group = form(board, letters, rank);
    std::vector<float> data(100'000, 1.0F);
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    return error_of([&] {
      const CallsOf its(rank < victim ? CallOrigin{CallOrigin::Kind::ddp_backward, 1, 3} : CallOrigin{});
      if (rank < victim) group->all_reduce(bytes, data.size(), ElementType::f32, Reduction::sum, kTimeout);
      if (rank >= victim) group->all_reduce(bytes, 1, ElementType::f32, Reduction::max, kTimeout);
    });
  });
  for (const auto& outcome : outcomes) {
    CAPTURE(letters, outcome.said);
    CHECK(outcome.said.find("rank " + std::to_string(victim) + " (pid ") != std::string::npos);
    CHECK(outcome.said.find("rank 0 called all_reduce sum of 100000 float32 (Ddp backward, bucket 1 of 3), rank " +
                            std::to_string(victim) + " called all_reduce max of 1 float32") != std::string::npos);
    CHECK(outcome.seconds < 5.0);
  }
}

TEST_CASE("over hosts a collective that a rank left out is told by its number") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) {
    const auto group = form(board, "ab", rank);
    std::vector<std::byte> data(8);
    return error_of([&] {
      if (rank == 0) group->broadcast(data.data(), data.size(), 0, kTimeout);
      for (int again = 0; again < 2; ++again) group->barrier(kTimeout);
    });
  });
  CAPTURE(outcomes[0].said, outcomes[1].said);
  // Either of them may see first what the other one sent.
  CHECK_THAT(outcomes[1].said, Catch::Contains("rank 0 called broadcast 8 bytes from rank 0, rank 1 called barrier") ||
                                   Catch::Contains("rank 0 called barrier, rank 1 called barrier as its collective 1"));
}

TEST_CASE("over hosts parts of all_to_all that do not fit are named") {
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) {
    const auto group = form(board, "abc", rank);
    std::vector<std::vector<std::byte>> has(3, std::vector<std::byte>(8)), gets = has;
    if (rank == 2) gets[1].resize(4);
    return error_of([&] {
      test::exchange(*group, has, gets, kTimeout);
      group->barrier(kTimeout);
    });
  });
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.said);
    CHECK(outcome.said.find("rank 2 (pid ") != std::string::npos);
    CHECK(outcome.said.find("rank 1 has 8 bytes for rank 2, which expects 4") != std::string::npos);
  }
}
