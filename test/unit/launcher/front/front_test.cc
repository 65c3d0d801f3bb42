// A front with an agent that only waits for what it is told.
#include "launcher/front/front.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launcher/front/front_message.h"
#include "rendezvous/net/listen.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

constexpr int kLimitMs = 30'000;
constexpr int kToldToStop = 7;

bool is_ready(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, kLimitMs) == 1;
}

// Says by a byte that the front watches its signals. `context`: the descriptor for it.
int wait_to_be_told(FrontSide side, void* context) {
  if (::write(*static_cast<const int*>(context), "x", 1) != 1) return 1;
  while (is_ready(side.socket.get())) {
    const auto message = receive_from(side.socket.get());
    if (!message) return 1;
    if (message->op == FrontMessage::Op::resume) continue;  // the first sign was one
    return message->op == FrontMessage::Op::stop && message->value == SIGTERM ? kToldToStop : 1;
  }
  return 1;
}

}  // namespace

TEST_CASE("a starter whose port outlives the sign of its end is found to be gone") {
  auto listener = listen_at("127.0.0.1", 0);
  REQUIRE(listener);
  const std::uint16_t port = *port_of_socket(listener->get());
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const UniqueFd told(ready[0]), tells(ready[1]);

  const pid_t front = ::fork();
  REQUIRE(front >= 0);
  if (front == 0) {
    FrontSignals signals{.stop = {SIGTERM}, .passed = {}};
    signals.started_from = {{"127.0.0.1", port}};
    ::_exit(run_front(signals, nullptr, wait_to_be_told, &ready[1]));
  }
  CHECK(is_ready(told.get()));
  ::kill(front, SIGCONT);
  CHECK(is_ready(listener->get()));        // the front has looked, and somebody listened
  ::shutdown(listener->get(), SHUT_RDWR);  // the port stays ours, and refuses
  int status = 0;
  CHECK(::waitpid(front, &status, 0) == front);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kToldToStop);
}
