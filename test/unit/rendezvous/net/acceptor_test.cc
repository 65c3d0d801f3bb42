// The accept loop with real sockets: how many a turn, pauses, and a process without a descriptor for a connection.
#include "rendezvous/net/acceptor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/net/listen.h"
#include "rendezvous/net/watch.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

struct Door {
  explicit Door(Acceptor::Options options = {}) {
    auto listener = listen_at("127.0.0.1", 0);
    REQUIRE(listener.ok());
    port = *port_of_socket(listener->get());
    auto watched = watch_on(io, std::move(*listener));
    REQUIRE(watched.ok());
    if (!options.accepted) options.accepted = [this](UniqueFd fd) { accepted.push_back(std::move(fd)); };
    acceptor.emplace(io, std::move(*watched), std::move(options));
  }

  // From this process, so that it takes a descriptor here too.
  UniqueFd knock() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    return fd;
  }

  std::vector<UniqueFd> knock(int times) const {
    std::vector<UniqueFd> all;
    while (times-- > 0) all.push_back(knock());
    return all;
  }

  template <class Condition>
  bool until(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < limit) io.run_one_for(100ms);
    return condition();
  }

  boost::asio::io_context io;
  // Without anything to wait for, poll() would stop the loop for good.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays = boost::asio::make_work_guard(io);
  std::uint16_t port = 0;
  std::vector<UniqueFd> accepted;
  std::optional<Acceptor> acceptor;
};

// While one of these lives, this process may open no descriptor more than it has.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    rlimit tight = before_;
    tight.rlim_cur = rlim_t(lowest_free);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("acceptor: nothing is accepted before it is told to, and sockets do not block") {
  Door door;
  const UniqueFd peer = door.knock();
  door.io.poll();
  CHECK(door.accepted.empty());
  door.acceptor->resume();
  REQUIRE(door.until([&] { return door.accepted.size() == 1; }));
  char byte = 0;
  CHECK(::recv(door.accepted.front().get(), &byte, 1, 0) < 0);
  CHECK(errno == EAGAIN);
}

TEST_CASE("acceptor: others of the loop have their turn after a few connections") {
  std::vector<std::size_t> turns;
  Door* here = nullptr;
  Door door({.most_a_turn = 3, .accepted = {}, .turn = [&] { turns.push_back(here->accepted.size()); }});
  here = &door;
  const auto peers = door.knock(7);
  door.acceptor->resume();
  REQUIRE(door.until([&] { return door.accepted.size() == peers.size(); }));
  REQUIRE(turns.size() >= 3);
  std::size_t before = 0;
  for (const std::size_t now : turns) CHECK(now - std::exchange(before, now) <= 3);
}

TEST_CASE("acceptor: a callback pauses it at once") {
  Door* here = nullptr;
  std::vector<UniqueFd> let_in;
  Door door({.accepted = [&](UniqueFd fd) {
    let_in.push_back(std::move(fd));
    here->acceptor->pause();
  }});
  here = &door;
  const auto peers = door.knock(3);
  for (std::size_t i = 1; i <= peers.size(); ++i) {
    door.acceptor->resume();
    REQUIRE(door.until([&] { return let_in.size() >= i; }));
    door.io.poll();
    CHECK(let_in.size() == i);
  }
}

TEST_CASE("acceptor: a pause ends at its time, or earlier if it is told to") {
  Door door;
  const UniqueFd peer = door.knock();
  SECTION("at its time") {
    const auto until = std::chrono::steady_clock::now() + 50ms;
    door.acceptor->pause_until(until);
    REQUIRE(door.until([&] { return !door.accepted.empty(); }));
    CHECK(std::chrono::steady_clock::now() >= until);
  }
  SECTION("earlier") {
    door.acceptor->pause_until(std::chrono::steady_clock::now() + 1h);
    door.acceptor->resume();
    REQUIRE(door.until([&] { return !door.accepted.empty(); }));
  }
  SECTION("never, when a pause without an end follows") {
    door.acceptor->pause_until(std::chrono::steady_clock::now());
    door.acceptor->pause();
    door.io.poll();
    CHECK(door.accepted.empty());
  }
}

TEST_CASE("acceptor: without a descriptor somebody makes room, or the connection waits") {
  int asked = 0;
  bool can = false;
  std::optional<UniqueFd> spare;
  Door door({.try_again = 1ms, .accepted = {}, .no_room = [&](const Error& why) {
               ++asked;
               CHECK(why.errno_value == EMFILE);
               if (can) spare.reset();
               return std::exchange(can, false);
             }});
  // UBSan opens a descriptor when it first sees a class of Asio's: it shall see them all while it can.
  const UniqueFd first = door.knock();
  door.acceptor->pause_until(std::chrono::steady_clock::now());
  REQUIRE(door.until([&] { return !door.accepted.empty(); }));
  door.accepted.clear();
  spare.emplace(::dup(0));
  const UniqueFd peer = door.knock();
  SECTION("room is made") {
    can = true;
    const NoDescriptors none;
    REQUIRE(door.until([&] { return !door.accepted.empty(); }));
    CHECK(asked == 1);  // the room that nobody waits for is not made
  }
  SECTION("the connection is accepted when a descriptor is free") {
    {
      const NoDescriptors none;
      REQUIRE(door.until([&] { return asked >= 2; }));
      CHECK(door.accepted.empty());
    }
    REQUIRE(door.until([&] { return !door.accepted.empty(); }));
  }
}

TEST_CASE("acceptor: it may go while it waits, with a connection that has come") {
  Door door;
  door.acceptor->resume();
  const UniqueFd peer = door.knock();
  door.acceptor->pause_until(std::chrono::steady_clock::now());
  door.acceptor.reset();
  while (door.io.poll() != 0) continue;
  CHECK(door.accepted.empty());
}
