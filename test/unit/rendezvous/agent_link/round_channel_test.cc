// RoundChannel over a socket pair: what must not get lost at the end of a connection.
#include "rendezvous/agent_link/round_channel.h"

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
  const auto channel = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[0])});
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

TEST_CASE("messages go through TLS, and what the peer says last is heard") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  const auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  auto client = TlsSession::client(*secret, {LinkRole::agent, 0, "job"});
  auto server = TlsSession::server(*secret, "job");
  REQUIRE((client.ok() && server.ok()));
  boost::asio::io_context io;
  const auto near = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[0]), std::move(*client)});
  const auto far = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[1]), std::move(*server)});
  // More than a socket takes, so that both layers have something left.
  constexpr int kMany = 600;
  const std::string text(2000, 'x');
  int heard = 0;
  std::string end;
  far->start({[&](const RoundMessage& m) {
                REQUIRE(std::get<msg::Failed>(m).what == text);
                if (++heard < kMany) return;
                far->send(msg::End{{JobEnd::failure, 7, 1, "it failed"}});
                far->close();
              },
              [](const std::string&) { FAIL("the near end is still there"); }});
  near->start({[&](const RoundMessage& m) { end = std::get<msg::End>(m).verdict.reason; },
               [&](const std::string& reason) { CHECK(reason.empty()); }});
  for (int i = 0; i < 20; ++i) near->send(msg::Failed{0, 0, text});  // before the handshake
  io.poll();
  for (int i = 20; i < kMany; ++i) {
    near->send(msg::Failed{0, 0, text});
    io.poll();
  }
  io.run_for(std::chrono::seconds(20));
  CHECK(heard == kMany);
  CHECK(end == "it failed");
  CHECK_FALSE(near->open());
}

TEST_CASE("who has another secret is told so, and nothing of what it says is read") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  auto client = TlsSession::client(JobSecret::generate().value(), {LinkRole::agent, 0, "job"});
  auto server = TlsSession::server(JobSecret::generate().value(), "job");
  REQUIRE((client.ok() && server.ok()));
  boost::asio::io_context io;
  const auto near = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[0]), std::move(*client)});
  const auto far = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[1]), std::move(*server)});
  std::string near_says, far_says;
  far->start(
      {[](const RoundMessage&) { FAIL("a stranger's message"); }, [&](const std::string& why) { far_says = why; }});
  near->start(
      {[](const RoundMessage&) { FAIL("a stranger's message"); }, [&](const std::string& why) { near_says = why; }});
  near->send(msg::Over{});
  io.run_for(std::chrono::seconds(20));
  CHECK(near_says.find("token differs") != std::string::npos);
  CHECK(far_says.find("token differs") != std::string::npos);
  CHECK(near->fault() == TlsFault::token);
}

TEST_CASE("a peer that goes without reading has closed the connection, for no reason") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  UniqueFd peer(ends[1]);
  boost::asio::io_context io;
  const auto channel = std::make_shared<RoundChannel>(io, LinkSocket{UniqueFd(ends[0])});
  std::optional<std::string> why;
  channel->start({[](const RoundMessage&) { FAIL("nothing was said"); }, [&](const std::string& said) { why = said; }});
  peer.reset();  // with the greeting unread: the kernel says that the connection was reset
  io.run_for(std::chrono::seconds(10));
  CHECK(why == "");
}
