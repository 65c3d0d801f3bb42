// Whose a connection is: with sock_diag and without it, and in a user namespace that does not know all users.
#include "rendezvous/net/peer_uid.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>

#include "rendezvous/net/listen.h"
#include "test/support/catch.h"
#include "test/support/skip.h"
#include "test/unit/rendezvous/store_client.h"

namespace {

using dtrain::PeerUid;
using dtrain::UniqueFd;
using dtrain::store_test::Client;

constexpr int kSkipped = 77;

// What `body` returns in a child process.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

UniqueFd accepted(int listener) {
  pollfd ready{listener, POLLIN, 0};
  ::poll(&ready, 1, dtrain::store_test::kDeadlineMs);
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
}

// From now on this process has no netlink sockets.
bool forbid_netlink() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof *code, code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("peer uid: a socket its process has closed has no owner") {
  auto lookup = PeerUid::open();
  REQUIRE(lookup.ok());
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);

  UniqueFd held;
  {
    Client client(ntohs(address.sin_port));
    held.reset(::accept(listener.get(), nullptr, nullptr));
    const auto uid = lookup->lookup(held.get());
    REQUIRE(uid.ok());
    CHECK(*uid == ::geteuid());
    client.send("bytes that were sent before closing");
  }
  CHECK_FALSE(lookup->lookup(held.get()).ok());
}

TEST_CASE("peer uid: where there is no sock_diag, /proc says it") {
  for (const char* address : {"127.0.0.1", "::1"}) {
    INFO(address);
    const auto listener = dtrain::listen_at(address, 0);
    REQUIRE(listener.ok());
    const std::uint16_t port = dtrain::port_of_socket(listener->get()).value();
    const int family = std::string_view(address) == "::1" ? AF_INET6 : AF_INET;
    CHECK(in_child([&] {
            if (!forbid_netlink()) return kSkipped;
            auto peer_uid = PeerUid::open();
            if (!peer_uid || peer_uid->quick()) return 1;
            UniqueFd held;
            dtrain::TcpEnds ends;
            {
              Client client(port, family);
              held = accepted(listener->get());
              const auto uid = peer_uid->lookup(held.get());
              if (!uid || *uid != ::geteuid()) return 2;
              ends = dtrain::ends_of_peer(held.get()).value();
              const auto same = peer_uid->lookup(ends);
              if (!same || *same != ::geteuid()) return 3;
            }
            if (peer_uid->lookup(held.get())) return 4;
            ends.own_port = 1;
            const auto nobody = peer_uid->lookup(ends);
            return nobody || nobody.error().errno_value != ENOENT ? 5 : 0;
          }) == 0);
  }
}

TEST_CASE("peer uid: in a user namespace that does not know all users, another user is not taken for this one") {
  if (::geteuid() != 0) DTRAIN_SKIP("only root can become other users to try");
  const auto listener = dtrain::listen_at("127.0.0.1", 0);
  REQUIRE(listener.ok());
  const std::uint16_t port = dtrain::port_of_socket(listener->get()).value();
  int connect_now[2];
  REQUIRE(::pipe2(connect_now, O_CLOEXEC) == 0);
  const pid_t other = ::fork();
  if (other == 0) {
    char go = 0;
    ::close(connect_now[1]);  // so that it ends where the others are skipped
    if (::setgid(2345) != 0 || ::setuid(2345) != 0 || ::read(connect_now[0], &go, 1) != 1) ::_exit(1);
    const Client client(port);
    ::_exit(::read(connect_now[0], &go, 1) == 0 ? 0 : 1);  // until the test ends
  }
  const int said = in_child([&] {
    if (::setgid(1234) != 0 || ::setuid(1234) != 0 || ::unshare(CLONE_NEWUSER) != 0) return kSkipped;
    auto peer_uid = PeerUid::open();
    if (!peer_uid || dtrain::uid_of_anybody() != ::geteuid()) return 1;
    const Client own(port);
    const UniqueFd first = accepted(listener->get());
    const auto uid = peer_uid->lookup(first.get());
    if (!uid || *uid != ::geteuid()) return 2;
    const auto vouched = peer_uid->lookup(dtrain::ends_of_peer(first.get()).value());
    if (!vouched || *vouched != ::geteuid()) return 5;
    if (::write(connect_now[1], "x", 1) != 1) return 3;
    const UniqueFd second = accepted(listener->get());
    const auto another = peer_uid->lookup(second.get());
    if (another || another.error().errno_value != EACCES) return 4;
    const auto not_vouched = peer_uid->lookup(dtrain::ends_of_peer(second.get()).value());
    return not_vouched || not_vouched.error().errno_value != EACCES ? 6 : 0;
  });
  ::close(connect_now[1]);
  ::waitpid(other, nullptr, 0);
  ::close(connect_now[0]);
  if (said == kSkipped) DTRAIN_SKIP("no user namespaces here");
  CHECK(said == 0);
}

TEST_CASE("a user namespace knows all users if its map has them all") {
  CHECK(dtrain::knows_all_users("         0          0 4294967295\n"));
  CHECK_FALSE(dtrain::knows_all_users(""));
  CHECK_FALSE(dtrain::knows_all_users("      1000       1000          1\n"));
  CHECK_FALSE(dtrain::knows_all_users("         0     100000      65536\n"));
  CHECK_FALSE(dtrain::knows_all_users("         0          0          1\n         1     100000      65536\n"));
  CHECK(dtrain::uid_of_anybody().value_or(65534) != 0);
}
