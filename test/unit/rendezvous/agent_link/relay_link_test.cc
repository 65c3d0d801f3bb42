// The two ends of an `engine` link, on real sockets with TLS.
#include "rendezvous/agent_link/relay_link.h"

#include <sys/socket.h>

#include <chrono>
#include <optional>

#include "rendezvous/credentials/job_secret.h"
#include "test/support/catch.h"

using namespace dtrain;
using What = RelayFrame::What;
namespace asio = boost::asio;

namespace {

constexpr auto kDeadline = std::chrono::seconds(20);

struct End {
  std::shared_ptr<RelayLink> link{};
  std::string heard[6];  // by What
  bool takes = true, drained = false;
  std::optional<std::string> closed{};

  void start() {
    link->start({[this](const RelayFrame& frame) {
                   heard[static_cast<int>(frame.what)] += frame.bytes;
                   return takes;
                 },
                 [this] { drained = true; }, [this](const std::string& reason) { closed = reason; }});
    if (takes) link->go_on();
  }
};

struct Pair {
  asio::io_context io;
  End relay, submitter;

  Pair(const JobSecret& of_relay, const JobSecret& of_submitter, bool listens = true) {
    submitter.takes = listens;
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    UniqueFd one(fds[0]), other(fds[1]);
    auto client = TlsSession::client(of_relay, {LinkRole::engine, 3, "submit"});
    auto server = TlsSession::server(of_submitter, "submit");
    REQUIRE((client.ok() && server.ok()));
    relay.link = std::make_shared<RelayLink>(io, LinkSocket{std::move(one), std::move(*client)});
    submitter.link = std::make_shared<RelayLink>(io, LinkSocket{std::move(other), std::move(*server)});
    relay.start();
    submitter.start();
  }
  ~Pair() {
    relay.link->close();
    submitter.link->close();
  }
  template <class Condition>
  bool until(Condition&& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!condition())
      if (io.run_one_until(deadline) == 0) return false;
    return true;
  }
};

JobSecret secret() { return *JobSecret::generate(); }

}  // namespace

TEST_CASE("an agent's output and orders go over a link") {
  const JobSecret one = secret();
  Pair pair(one, one);
  pair.relay.link->send(What::out, "output");
  pair.relay.link->send(What::err, "errors");
  pair.submitter.link->send(What::in, "orders");
  REQUIRE(pair.until([&] {
    return pair.submitter.heard[1] == "output" && pair.submitter.heard[2] == "errors" &&
           pair.relay.heard[4] == "orders";
  }));
  pair.relay.link->send(What::ended, "7");
  pair.relay.link->finish();
  REQUIRE(pair.until([&] { return pair.submitter.closed.has_value(); }));
  CHECK(pair.submitter.heard[3] == "7");
  CHECK(pair.submitter.closed->empty());
}

TEST_CASE("a reader that is slow stops the writer, and loses nothing") {
  const JobSecret one = secret();
  Pair pair(one, one);
  pair.relay.link->send(What::err, "first");
  REQUIRE(pair.until([&] { return pair.submitter.heard[2] == "first"; }));
  pair.submitter.takes = false;
  std::size_t sent = 0;
  const std::string block(100000, 'x');
  while (!pair.relay.link->full()) {
    pair.relay.link->send(What::out, block);
    sent += block.size();
    pair.io.poll();
    REQUIRE((pair.relay.link->open() && sent < (std::size_t{64} << 20)));
  }
  CHECK(pair.submitter.heard[1].size() < sent / 2);
  pair.submitter.takes = true;
  pair.submitter.link->go_on();
  REQUIRE(pair.until([&] { return pair.submitter.heard[1].size() == sent && pair.relay.drained; }));
}

TEST_CASE("what was said before anybody listens is heard then") {
  const JobSecret one = secret();
  Pair pair(one, one, false);
  pair.relay.link->send(What::out, "early");
  for (int i = 0; i < 100; ++i) pair.io.poll();
  CHECK(pair.submitter.heard[1].empty());
  pair.submitter.takes = true;
  pair.submitter.link->go_on();
  REQUIRE(pair.until([&] { return pair.submitter.heard[1] == "early"; }));
}

TEST_CASE("whoever has another secret is no agent of this submission") {
  Pair pair(secret(), secret());
  pair.relay.link->send(What::out, "output");
  REQUIRE(pair.until([&] { return pair.submitter.closed.has_value(); }));
  CHECK_FALSE(pair.submitter.closed->empty());
  CHECK(pair.submitter.heard[1].empty());
}
