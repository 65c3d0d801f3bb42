// RoundChannel over a socket pair: what must not get lost at the end of a connection.
#include "rendezvous/round_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("what the peer said before it left is heard, though nothing can be sent any more") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  {
    const UniqueFd peer(ends[1]);
    const std::string said = std::string(kRoundGreeting) + encode(msg::End{{JobEnd::failure, 7, 1, "it failed"}});
    REQUIRE(::write(peer.get(), said.data(), said.size()) == ssize_t(said.size()));
  }
  boost::asio::io_context io;
  const auto channel = std::make_shared<RoundChannel>(io, UniqueFd(ends[0]));
  std::optional<int> exit_code;
  int closed = 0;
  channel->start({[&](const RoundMessage& m) { exit_code = std::get<msg::End>(m).verdict.exit_code; },
                  [&](const std::string& reason) {
                    CHECK(reason.empty());
                    ++closed;
                  }});
  channel->send(msg::Over{0, false});
  io.run_for(std::chrono::seconds(10));
  CHECK(exit_code == 7);
  CHECK(closed == 1);
}
