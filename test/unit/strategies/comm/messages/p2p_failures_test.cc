// Messages that cannot end well: the error comes in time, names the rank, and nothing is left waiting.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "test/support/catch.h"
#include "test/unit/strategies/fake_hosts.h"
#include "test/unit/strategies/p2p_calls.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::message_of;
using test::receive;
using test::run_ranks;
using test::send;
using test::SharedBoard;

namespace {

constexpr auto kTimeout = test::kP2pTimeout;

// A rank for each letter, its host's (fake_hosts.h).
std::vector<test::RankOutcome> in_groups(const std::string& letters,
                                         const std::function<std::string(CommGroup&, int)>& body,
                                         std::chrono::seconds limit = test::kRanksLimit) {
  SharedBoard board;
  return run_ranks(
      static_cast<int>(letters.size()),
      [&](int rank) {
        const auto formed = test::form_on(board, letters, rank, 1U << 20, kTimeout);
        CommGroup& group = *formed;
        // No rank is still in a barrier when another one breaks the group.
        board.put("ready/" + std::to_string(rank), "yes");
        for (std::size_t r = 0; r < letters.size(); ++r)
          board.take("ready/" + std::to_string(r), ShmWait::after(kTimeout));
        return body(group, rank);
      },
      limit);
}

// How what returns the other rank ended: "kind rank | line".
std::string end_of(const std::function<int()>& call) {
  try {
    return "from " + std::to_string(call());
  } catch (const CollectiveError& error) {
    return std::to_string(static_cast<int>(error.kind())) + " rank " + std::to_string(error.rank()) + " | " +
           error.what();
  }
}

std::string end_of(const test::OperationPtr& operation) {
  return end_of([&] { return operation->wait(); });
}

// Ways of waiting: for an operation that was begun, or on the calling thread from the start.
std::string end_of_send(CommGroup& group, bool now, std::size_t bytes, int to, std::chrono::milliseconds limit) {
  const auto data = message_of(bytes, 1);
  if (!now) return end_of(send(group, data, to, 0, limit));
  return end_of([&] { return test::send_now(group, data, to, 0, limit); });
}

std::string end_of_receive(CommGroup& group, bool now, std::size_t bytes, int from, std::chrono::milliseconds limit) {
  if (!now) return end_of(receive(group, bytes, from, 0, limit));
  std::vector<std::byte> into(bytes);
  return end_of([&] { return test::receive_now(group, into, from, 0, limit); });
}

std::string start_of(FailureKind kind, int rank) {
  return std::to_string(static_cast<int>(kind)) + " rank " + std::to_string(rank) + " |";
}

std::vector<std::byte> own_pid() {
  const pid_t pid = ::getpid();
  std::vector<std::byte> data(sizeof pid);
  std::memcpy(data.data(), &pid, sizeof pid);
  return data;
}

pid_t pid_in(const test::OperationPtr& received) {
  received->wait();
  pid_t pid = 0;
  std::memcpy(&pid, received->data.data(), sizeof pid);
  return pid;
}

void await_end(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{fd, POLLIN, 0};
  ::poll(&entry, 1, 10'000);
  ::close(fd);
}

void check_starts(const test::RankOutcome& outcome, const std::string& start) {
  CAPTURE(outcome.said, outcome.signal);
  CHECK(outcome.said.find(start) == 0);
}

}  // namespace

TEST_CASE("a message of another size breaks the group with a line that every rank sees") {
  const std::string letters = GENERATE("aaa", "abc", "aab", "abb");
  const std::size_t sent = GENERATE(12, 100'000);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) {
    if (rank == 0) {
      send(group, message_of(sent, 0), 1, 5);
      return end_of(receive(group, 1, 2));  // broken with the rest
    }
    if (rank == 1) return end_of(receive(group, 16, 0, 5));
    return end_of(receive(group, 1, 0));
  });
  const std::string line = "rank 0 sent bytes [" + std::to_string(sent) + "] with tag 5, rank 1 expects bytes [16]";
  for (const auto& outcome : outcomes) {
    check_starts(outcome, start_of(FailureKind::mismatched, 1));
    CHECK_THAT(outcome.said, Catch::Contains(line));
  }
}

TEST_CASE("a rank that is killed in the middle of a large message is named by who sends and who receives") {
  const std::string letters = GENERATE("aaa", "aba", "aab", "abb", "abc");
  const bool sender = GENERATE(true, false);
  const int after = GENERATE(1, 2, 5, 40);
  CAPTURE(sender, after);
  const auto before = test::shared_memory_names();
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) -> std::string {
    constexpr std::size_t kLarge = 32U << 20;
    if (rank == 2) return end_of(receive(group, 1, 1, 9));
    if (rank == 1) {
      send(group, own_pid(), 0)->wait();
      const auto large = sender ? send(group, message_of(kLarge, 1), 0, 1) : receive(group, kLarge, 0, 1);
      for (int i = 0; i < after; ++i) send(group, {}, 0, 2)->wait();
      large->wait();
      return end_of(receive(group, 1, 0, 3));
    }
    const pid_t pid = pid_in(receive(group, sizeof(pid_t), 1));
    const auto large = sender ? receive(group, kLarge, 1, 1) : send(group, message_of(kLarge, 1), 1, 1);
    for (int i = 0; i < after; ++i) receive(group, 0, 1, 2)->wait();
    ::kill(pid, SIGKILL);
    const std::string said = end_of(large);
    return said.find("from ") == 0 ? end_of(receive(group, 1, 1, 3)) : said;
  });
  CHECK(outcomes[1].signal == SIGKILL);
  // Had they waited for their deadline, it would be another kind.
  for (const int rank : {0, 2})
    check_starts(outcomes[static_cast<std::size_t>(rank)], start_of(FailureKind::peer_died, 1));
  CHECK(test::shared_memory_names() == before);
}

TEST_CASE("a stopped rank is told as such, at the deadline of the message") {
  const std::string letters = GENERATE("aa", "ab");
  const bool sends = GENERATE(true, false), now = GENERATE(true, false);
  const auto outcomes = in_groups(
      letters,
      [&](CommGroup& group, int rank) -> std::string {
        if (rank == 1) ::kill(::getpid(), SIGSTOP);
        const auto start = std::chrono::steady_clock::now();
        const std::chrono::milliseconds limit{700};
        const std::string said =
            sends ? end_of_send(group, now, 2'000'000, 1, limit) : end_of_receive(group, now, 8, 1, limit);
        const auto took = std::chrono::steady_clock::now() - start;
        return said + (took >= limit && took < limit + std::chrono::seconds{1} ? " in time" : " at another time");
      },
      std::chrono::seconds{3});
  check_starts(outcomes[0], start_of(FailureKind::timed_out, 1));
  CHECK_THAT(outcomes[0].said, Catch::EndsWith(" in time"));
  // On another host its process cannot be looked at.
  CHECK((outcomes[0].said.find("it is stopped; kill -CONT ") != std::string::npos) == (letters == "aa"));
}

TEST_CASE("nobody's message for any, and a message that nobody takes, end at their deadline") {
  const std::string letters = GENERATE("aaa", "abc", "aab");
  const bool sends = GENERATE(true, false), now = GENERATE(true, false);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) {
    if (rank != 0) return end_of_receive(group, now, 1, 3 - rank, kTimeout);
    const std::chrono::milliseconds limit{300};
    return sends ? end_of_send(group, now, 2'000'000, 1, limit) : end_of_receive(group, now, 8, P2pCore::kAny, limit);
  });
  for (const auto& outcome : outcomes) check_starts(outcome, start_of(FailureKind::timed_out, 1));
  CHECK_THAT(outcomes[0].said, Catch::Contains(sends ? "send of bytes [2000000] to rank 1 with tag 0: rank 1 (pid "
                                                     : "recv of bytes [8] from any rank with tag 0: rank 1 (pid "));
}

TEST_CASE("what a rank sent before it left is received, and nothing else is waited for") {
  const std::string letters = GENERATE("aa", "ab");
  const bool any = GENERATE(true, false);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) -> std::string {
    if (rank == 1) {
      for (int i = 0; i < 20; ++i) send(group, message_of(3000, i), 0)->wait();
      send(group, message_of(300'000, 20), 0)->wait();
      return "left";
    }
    std::vector<test::OperationPtr> all;
    std::string said;
    for (int i = 0; i < 20; ++i) all.push_back(receive(group, 3000, any ? P2pCore::kAny : 1));
    for (int i = 0; i < 20; ++i) {
      if (all[static_cast<std::size_t>(i)]->wait() != 1) said += "from another rank; ";
      if (all[static_cast<std::size_t>(i)]->data != message_of(3000, i)) said += "wrong bytes; ";
    }
    const auto large = receive(group, 300'000, any ? P2pCore::kAny : 1);
    if (large->wait() != 1 || large->data != message_of(300'000, 20)) said += "wrong large bytes; ";
    return said + end_of(receive(group, 3000, any ? P2pCore::kAny : 1));
  });
  check_starts(outcomes[0], start_of(FailureKind::peer_left, 1));
}

TEST_CASE("what a rank sent before it ended is received, at once or later") {
  const std::string letters = GENERATE("aa", "ab");
  const bool at_once = GENERATE(true, false);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) -> std::string {
    const int messages = at_once ? 5000 : 200;  // as many as are kept for a sender
    std::vector<std::byte> pids[2] = {own_pid(), own_pid()};
    group.all_gather(own_pid().data(), {pids[0].data(), pids[1].data()}, sizeof(pid_t), kTimeout);
    if (rank == 1) {
      for (int i = 0; i < messages; ++i) send(group, message_of(1000, i), 0)->wait();
      return "left";
    }
    pid_t other = 0;
    std::memcpy(&other, pids[1].data(), sizeof other);
    if (!at_once) await_end(other);
    for (int i = 0; i < messages; ++i) {
      const auto one = receive(group, 1000, 1);
      one->wait();
      if (one->data != message_of(1000, i)) return "wrong bytes";
    }
    return "all";
  });
  CHECK(outcomes[0].said == "all");
}

TEST_CASE("any rank's message is waited for while one that left is not the last, and not after a death") {
  const std::string letters = GENERATE("aaa", "abc", "aab", "abb");
  const bool dies = GENERATE(true, false);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) -> std::string {
    if (rank == 1) {
      send(group, own_pid(), 0, 2)->wait();
      receive(group, 1, 0, 3)->wait();  // what it has sent is there
      if (dies) ::raise(SIGKILL);
      return "left";
    }
    if (rank == 2) {
      if (dies) return end_of(receive(group, 1, 0, 1));
      receive(group, 1, 0, 1)->wait();
      send(group, message_of(8, 2), 0)->wait();
      return "sent";
    }
    const auto one = receive(group, 8, P2pCore::kAny);
    const pid_t first = pid_in(receive(group, sizeof(pid_t), 1, 2));
    send(group, message_of(1, 0), 1, 3)->wait();
    await_end(first);
    if (!dies) send(group, message_of(1, 0), 2, 1)->wait();
    return end_of(one);
  });
  check_starts(outcomes[0], dies ? start_of(FailureKind::peer_died, 1) : "from 2");
  check_starts(outcomes[2], dies ? start_of(FailureKind::peer_died, 1) : "sent");
}

TEST_CASE("an abort, and the failure of a collective, reach messages that are pending") {
  const std::string letters = GENERATE("aa", "ab");
  const bool aborts = GENERATE(true, false);
  const auto outcomes = in_groups(letters, [&](CommGroup& group, int rank) {
    const auto pending = receive(group, 8, 1 - rank);
    if (rank == 1 && aborts) group.abort();
    if (!aborts) {
      float value = 0;
      try {
        group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32,
                         rank == 0 ? Reduction::sum : Reduction::max, kTimeout);
      } catch (const CollectiveError&) {
      }
    }
    const std::string said = end_of(pending);
    const std::string later = end_of(send(group, message_of(1, 1), 1 - rank));
    return said + (said.substr(0, 8) == later.substr(0, 8) ? "" : " and then " + later);
  });
  for (const auto& outcome : outcomes) {
    check_starts(outcome, start_of(aborts ? FailureKind::aborted : FailureKind::mismatched, 1));
    CHECK_THAT(outcome.said, !Catch::Contains(" and then "));
  }
}

TEST_CASE("an end of the group on this rank ends what is pending, and the other rank hears of it") {
  const std::string letters = GENERATE("aa", "ab");
  const auto outcomes = in_groups(letters, [](CommGroup& group, int rank) -> std::string {
    const auto small = receive(group, 8, 1 - rank);
    const auto large = send(group, message_of(5'000'000, 1), 1 - rank, 3);
    if (rank == 0) return end_of(small) + "\n" + end_of(large);
    group.p2p().end();
    std::string said = end_of(small) + "\n" + end_of(large);
    try {
      send(group, {}, 0);
    } catch (const std::runtime_error&) {
      said += "\nrefused";
    }
    return said;
  });
  check_starts(outcomes[0], start_of(FailureKind::peer_left, 1));
  check_starts(outcomes[1], start_of(FailureKind::aborted, 1));
  CHECK_THAT(outcomes[0].said, Catch::Contains("\n" + start_of(FailureKind::peer_left, 1)));
  CHECK_THAT(outcomes[1].said, Catch::Contains("\n" + start_of(FailureKind::aborted, 1)) &&
                                   Catch::Contains("was shut down with this pending") && Catch::EndsWith("refused"));
}

namespace {

void await_pending(CommGroup& group, std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  while (group.p2p().pending() < count && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

}  // namespace

TEST_CASE("an end of the group on this rank ends what its threads wait for") {
  const std::string letters = GENERATE("aa", "ab");
  const auto outcomes = in_groups(letters, [](CommGroup& group, int rank) -> std::string {
    if (rank == 0) return end_of_receive(group, true, 8, 1, kTimeout);
    const auto large = message_of(5'000'000, 1);
    std::vector<std::string> said(3);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < said.size(); ++t) {
      threads.emplace_back([&, t] {
        said[t] = t == 0 ? end_of([&] { return test::send_now(group, large, 0, 3); })
                         : end_of_receive(group, true, 8, 0, kTimeout);
      });
    }
    await_pending(group, said.size());
    group.p2p().end();
    for (auto& thread : threads) thread.join();
    return said[0] + "\n" + said[1] + "\n" + said[2];
  });
  check_starts(outcomes[0], start_of(FailureKind::peer_left, 1));
  check_starts(outcomes[1], start_of(FailureKind::aborted, 1));
  CHECK_THAT(outcomes[1].said,
             Catch::Contains("\n" + start_of(FailureKind::aborted, 1)) && !Catch::Contains("\nfrom "));
}

namespace {

// The last of a rank's connections: that for messages, where this rank connected to one other.
int message_connection() {
  int last = -1;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET) last = fd;
  }
  return last;
}

}  // namespace

TEST_CASE("a connection for messages that is cut is told at both ends, though both ranks live on") {
  const auto outcomes = in_groups("ab", [](CommGroup& group, int rank) {
    const auto pending = receive(group, 8, 1 - rank);
    if (rank == 1) ::shutdown(message_connection(), SHUT_RDWR);
    return end_of(pending);
  });
  // Who notices first tells the other.
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.said);
    CHECK(outcome.said.find(" died") != std::string::npos);
    CHECK(outcome.seconds < 5.0);
  }
}

TEST_CASE("what is no message is told as such, whatever it says of its size") {
  const int kind = GENERATE(0, 1, 2, 3, 4, 5, 6, 77);
  CAPTURE(kind);
  const auto outcomes = in_groups("ab", [kind](CommGroup& group, int rank) {
    const auto pending = receive(group, 8, 1 - rank);
    Frame frame;
    frame.kind = static_cast<Frame::Kind>(kind);
    frame.payload = std::uint64_t{1} << 40;
    if (kind == 0) frame.magic = 0;
    if (rank == 1) ::send(message_connection(), &frame, sizeof frame, MSG_NOSIGNAL);
    return end_of(pending);
  });
  for (const auto& outcome : outcomes) {
    check_starts(outcome, start_of(FailureKind::mismatched, 1));
    CHECK_THAT(outcome.said, Catch::Contains("rank 1 sent something else than a message"));
  }
}
