// See connect.h.
#include "rendezvous/net/connect.h"

#include <sys/socket.h>

#include "rendezvous/net/listen.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr auto kLimit = std::chrono::seconds(30);

UniqueFd listening() {
  auto fd = listen_at("127.0.0.1", 0);
  REQUIRE(fd);
  return std::move(*fd);
}

// A port that is ours and refuses.
struct Silent {
  Silent() : socket(listening()), port(*port_of_socket(socket.get())) {
    ::shutdown(socket.get(), SHUT_RDWR);  // it listens no more, and keeps the port
  }
  UniqueFd socket;
  std::uint16_t port;
};

}  // namespace

TEST_CASE("a process is gone where all of its places refuse that can be reached") {
  const Silent silent;
  const UniqueFd listener = listening();
  const std::uint16_t port = *port_of_socket(listener.get());
  CHECK(nobody_listens({{"127.0.0.1", silent.port}}, kLimit));
  CHECK(nobody_listens({{"255.255.255.255", 9}, {"127.0.0.1", silent.port}, {"not an address", 9}}, kLimit));
  CHECK_FALSE(nobody_listens({{"127.0.0.1", port}}, kLimit));
  CHECK_FALSE(nobody_listens({{"127.0.0.1", silent.port}, {"127.0.0.1", port}}, kLimit));
}

TEST_CASE("of a process whose places nobody can reach, or that does not answer, nothing is known") {
  CHECK_FALSE(nobody_listens({}, kLimit));
  CHECK_FALSE(nobody_listens({{"255.255.255.255", 9}}, kLimit));
  // The queue of a listener that accepts nobody becomes full; then the kernel does not answer.
  const UniqueFd listener = listening();
  const std::uint16_t port = *port_of_socket(listener.get());
  ::listen(listener.get(), 0);
  std::vector<UniqueFd> queue;
  for (int i = 0; i < 3; ++i) {
    auto begun = begin_connect("127.0.0.1", port);
    REQUIRE(begun);
    queue.push_back(std::move(*begun));
  }
  const Silent silent;
  CHECK_FALSE(nobody_listens({{"127.0.0.1", port}, {"127.0.0.1", silent.port}}, std::chrono::milliseconds(50)));
}
