#include "launcher/guard/guard_protocol.h"

#include <sys/socket.h>

#include <cerrno>

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("a packet is a message only if it has the size of one") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  ReceivedGuardMessage got;
  CHECK(receive_guard_message(theirs.get(), got) == Receive::again);

  GuardMessage message;
  message.op = GuardOp::started;
  message.local_rank = 3;
  message.pid = 7;
  REQUIRE(send_guard_message(ours.get(), message, &ends[0], 1) == 0);
  REQUIRE(receive_guard_message(theirs.get(), got) == Receive::message);
  CHECK(got.message.local_rank == 3);
  CHECK(got.message.pid == 7);
  CHECK(got.fds[0]);
  CHECK_FALSE(got.fds[1]);

  for (const size_t size : {size_t{1}, sizeof message - 1, sizeof message + 1}) {
    const std::string packet(size, '\0');
    REQUIRE(::send(ours.get(), packet.data(), packet.size(), MSG_NOSIGNAL) == ssize_t(packet.size()));
    CHECK(receive_guard_message(theirs.get(), got) == Receive::closed);
  }
}

TEST_CASE("what a worker is to execute comes through a descriptor unchanged, and anything else there is refused") {
  const auto fd = write_exec_payload({"/bin/true", "", "a b"}, {"A=1"});
  REQUIRE(fd);
  ExecPayload payload;
  REQUIRE(payload.map(fd->get()));
  CHECK(payload.argv()[1] == std::string());
  CHECK(payload.argv()[2] == std::string("a b"));
  CHECK(payload.argv()[3] == nullptr);
  CHECK(payload.envp()[0] == std::string("A=1"));
  CHECK(payload.envp()[1] == nullptr);

  const auto nothing = write_exec_payload({}, {});
  REQUIRE(nothing);
  CHECK_FALSE(ExecPayload().map(nothing->get()));
  CHECK_FALSE(ExecPayload().map(-1));
}

TEST_CASE("last words are heard, also from a side that has not read all") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  REQUIRE(send_guard_message(ours.get(), {GuardOp::begin_round}) == 0);
  REQUIRE(send_guard_message(theirs.get(), {GuardOp::failed}) == 0);
  theirs.reset();
  ReceivedGuardMessage received;
  REQUIRE(receive_guard_message(ours.get(), received) == Receive::message);
  CHECK(received.message.op == GuardOp::failed);
  CHECK(receive_guard_message(ours.get(), received) == Receive::closed);
}

TEST_CASE("why a guard cannot go on") {
  CHECK(describe_failure({GuardOp::failed, -1, int32_t(GuardNeed::events), EMFILE}) ==
        "the guard cannot watch the agent and the workers (epoll): Too many open files");
}

}  // namespace dtrain::launcher
