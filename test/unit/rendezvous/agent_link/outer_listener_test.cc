// The routable port with real sockets: who is let in, and that the others cost little.
#include "rendezvous/agent_link/outer_listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "rendezvous/agent_link/round_channel.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/net/peer_uid.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;

namespace {

struct Port {
  explicit Port(std::optional<JobSecret> secret, std::size_t most_unknown = 8,
                std::chrono::milliseconds longest = std::chrono::seconds(20), std::chrono::milliseconds least = {},
                bool vouches = false, const std::function<void(OuterListener::Options&)>& change = {}) {
    auto listener = listen_at("127.0.0.1", 0);
    REQUIRE(listener.ok());
    number = *port_of_socket(listener->get());
    OuterListener::Options options;
    options.job = "job";
    options.credential = std::move(secret);
    options.agent = [this](LinkSocket socket, std::string received) {
      agents.push_back(std::move(received));
      sockets.push_back(std::move(socket));
    };
    options.store = [this](LinkSocket socket, std::string received) {
      stores.push_back(std::move(received));
      sockets.push_back(std::move(socket));
    };
    if (vouches) {
      options.vouch = [this](const TcpEnds& ends, std::function<void(bool)> answer) {
        asked.emplace_back(ends, std::move(answer));
      };
      options.worker = [this](UniqueFd fd) { workers.push_back(std::move(fd)); };
    }
    options.log = [this](const std::string& line) { lines.push_back(line); };
    options.most_unknown = most_unknown;
    options.longest_unknown = longest;
    options.least_unknown = least;
    if (change) change(options);
    port = std::make_unique<OuterListener>(io, std::move(*listener), std::move(options));
  }

  UniqueFd connect(const char* from = "127.0.0.1") {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const tcp::endpoint own(boost::asio::ip::make_address(from), 0);
    REQUIRE(::bind(fd.get(), own.data(), static_cast<socklen_t>(own.size())) == 0);
    const tcp::endpoint to(boost::asio::ip::make_address("127.0.0.1"), number);
    REQUIRE(::connect(fd.get(), to.data(), static_cast<socklen_t>(to.size())) == 0);
    return fd;
  }

  template <class Condition>
  bool until(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < limit) io.run_one_for(100ms);
    return condition();
  }

  boost::asio::io_context io;
  std::uint16_t number = 0;
  std::vector<std::string> agents, stores, lines;
  std::vector<LinkSocket> sockets;
  std::vector<std::pair<TcpEnds, std::function<void(bool)>>> asked;
  std::vector<UniqueFd> workers;
  std::unique_ptr<OuterListener> port;
};

// A client's greeting through TLS, by a channel of its own.
std::shared_ptr<RoundChannel> greet(Port& port, const JobSecret& secret, const LinkName& link) {
  auto session = TlsSession::client(secret, link);
  REQUIRE(session.ok());
  auto channel = std::make_shared<RoundChannel>(port.io, LinkSocket{port.connect(), std::move(*session)});
  channel->start({[](const RoundMessage&) {}, [](const std::string&) {}});
  return channel;
}

bool closed(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

}  // namespace

TEST_CASE("the key says what a connection is for") {
  const auto secret = JobSecret::generate().value();
  Port port(secret);
  const auto agent = greet(port, secret, {LinkRole::agent, 0, "job"});
  const auto store = greet(port, secret, {LinkRole::store, 3, "job"});
  REQUIRE(port.until([&] { return port.sockets.size() == 2; }));
  CHECK(port.agents == std::vector<std::string>{std::string(kRoundGreeting)});
  CHECK(port.stores.size() == 1);
  CHECK(port.port->unknown_connections() == 0);
  CHECK(port.lines.empty());
}

TEST_CASE("another token, another job and no TLS are turned away, with a line for each") {
  const auto secret = JobSecret::generate().value();
  Port port(secret);
  const auto stranger = greet(port, JobSecret::generate().value(), {LinkRole::agent, 0, "job"});
  REQUIRE(port.until([&] { return port.lines.size() == 1; }));
  CHECK(port.lines[0].find("turned away a connection from 127.0.0.1: the token differs") == 0);
  const auto other = greet(port, secret, {LinkRole::agent, 0, "another"});
  REQUIRE(port.until([&] { return port.lines.size() == 2; }));
  CHECK(port.lines[1].find("another job") != std::string::npos);
  const UniqueFd plain = port.connect();
  REQUIRE(::send(plain.get(), kRoundGreeting.data(), kRoundGreeting.size(), 0) > 0);
  REQUIRE(port.until([&] { return port.lines.size() == 3; }));
  CHECK(port.agents.empty());
}

TEST_CASE("a worker is let in unread when somebody vouches for it, and else not") {
  Port port(JobSecret::generate().value(), 8, 20s, {}, true);
  const UniqueFd good = port.connect();
  const UniqueFd bad = port.connect();
  const std::string greeting("\0\xce\xf7\x85\x3c", 5);
  for (const UniqueFd* fd : {&good, &bad}) REQUIRE(::send(fd->get(), greeting.data(), greeting.size(), 0) == 5);
  REQUIRE(port.until([&] { return port.asked.size() == 2; }));
  CHECK(port.asked[0].first.other_port == port.number);
  CHECK(port.asked[0].first.own == "127.0.0.1");
  CHECK(port.workers.empty());
  auto peer_uid = PeerUid::open();
  REQUIRE(peer_uid.ok());
  const auto uid = peer_uid->lookup(port.asked[0].first);  // the ends say whose it is
  CHECK((uid.ok() && *uid == ::geteuid()));
  port.asked[0].second(true);
  port.asked[1].second(false);
  REQUIRE(port.until([&] { return port.workers.size() == 1 && closed(bad); }));
  char first = 1;
  CHECK(::recv(port.workers[0].get(), &first, 1, MSG_DONTWAIT) == 1);
  CHECK(first == 0);
  CHECK(port.lines ==
        std::vector<std::string>{"turned away a connection from 127.0.0.1: no agent of this job vouches for it; it is "
                                 "torchrun's, or another client of torch's store: all nodes need the same launcher"});
}

TEST_CASE("a worker of the round before is turned away, though it is vouched for later") {
  Port port(JobSecret::generate().value(), 8, 20s, {}, true);
  const UniqueFd late = port.connect();
  REQUIRE(::send(late.get(), "\0\xce\xf7\x85\x3c", 5, 0) == 5);
  REQUIRE(port.until([&] { return port.asked.size() == 1; }));
  port.asked[0].second(true);
  port.port->drop_workers();
  REQUIRE(port.until([&] { return closed(late); }));
  port.io.poll();
  CHECK(port.workers.empty());
}

TEST_CASE("without --master-addr real a worker is a stranger") {
  Port port(JobSecret::generate().value());
  const UniqueFd worker = port.connect();
  REQUIRE(::send(worker.get(), "\0\xce\xf7\x85\x3c", 5, 0) == 5);
  REQUIRE(port.until([&] { return closed(worker); }));
  CHECK(port.asked.empty());
  CHECK(port.lines == std::vector<std::string>{"turned away a connection from 127.0.0.1: it is torchrun's, or another "
                                               "client of torch's store: all nodes need the same launcher"});
}

TEST_CASE("strangers are called by what they speak, with TLS and without") {
  for (const bool insecure : {false, true}) {
    Port port(insecure ? std::nullopt : std::optional(JobSecret::generate().value()));
    const UniqueFd browser = port.connect();
    REQUIRE(::send(browser.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0) == 18);
    REQUIRE(port.until([&] { return closed(browser); }));
    const UniqueFd torchrun = port.connect();
    REQUIRE(::send(torchrun.get(), "\0\xce\xf7\x85\x3c\x07", 6, 0) == 6);
    REQUIRE(port.until([&] { return closed(torchrun); }));
    REQUIRE(port.lines.size() == 2);
    CHECK(port.lines[0] == "turned away a connection from 127.0.0.1: it speaks HTTP");
    CHECK(port.lines[1].ends_with(kTorchrunKnocks));
    CHECK(port.agents.empty());
    CHECK(port.stores.empty());
  }
}

TEST_CASE("a listener for any job tells whose a connection is, and hands it over when enough has come") {
  const auto secret = JobSecret::generate().value();
  const std::string long_name(300, 'j');
  std::size_t enough = 1000;
  Port port(secret, 8, 20s, {}, false, [&](OuterListener::Options& options) {
    options.any_job = true;
    options.enough = [&](const LinkName&, std::string_view received) { return received.size() >= enough; };
  });
  const auto one = greet(port, secret, {LinkRole::agent, 0, "one"});
  const auto other = greet(port, secret, {LinkRole::store, 5, long_name});
  const auto stranger = greet(port, JobSecret::generate().value(), {LinkRole::agent, 0, "one"});
  REQUIRE(port.until([&] { return port.lines.size() == 1; }));
  CHECK(port.sockets.empty());
  enough = kRoundGreeting.size() + 1;
  one->send(msg::Ask{});
  other->send(msg::Ask{});
  REQUIRE(port.until([&] { return port.sockets.size() == 2; }));
  std::vector<std::string> names;
  for (const LinkSocket& socket : port.sockets) names.push_back(socket.tls->link().job);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{secret.identity_job(long_name).value(), "one"});
  CHECK(port.agents == std::vector<std::string>{std::string(kRoundGreeting) + encode(msg::Ask{})});
}

TEST_CASE("of many nodes that come in one moment none is turned away") {
  const auto secret = JobSecret::generate().value();
  Port port(secret, 2, 20s, 20s);
  std::vector<std::shared_ptr<RoundChannel>> nodes;
  nodes.reserve(40);
  for (int i = 0; i < 40; ++i) nodes.push_back(greet(port, secret, {LinkRole::agent, 0, "job"}));
  REQUIRE(port.until([&] { return port.agents.size() == nodes.size() || !port.lines.empty(); }));
  CHECK(port.agents.size() == nodes.size());
  CHECK(port.lines.empty());
}

TEST_CASE("who says nothing makes room for others, the oldest first, and has little time") {
  const auto secret = JobSecret::generate().value();
  SECTION("room") {
    Port port(secret, 4);
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 6; ++i) {
      silent.push_back(port.connect());
      REQUIRE(port.until([&] { return port.port->unknown_connections() == std::size_t(std::min(i + 1, 4)); }));
    }
    REQUIRE(port.until([&] { return closed(silent[0]) && closed(silent[1]); }));
    CHECK_FALSE(closed(silent[2]));
    const auto agent = greet(port, secret, {LinkRole::agent, 0, "job"});
    REQUIRE(port.until([&] { return port.agents.size() == 1; }));
  }
  SECTION("room of a host that many come from") {
    Port port(secret, 4);
    const UniqueFd slow = port.connect("127.0.0.2");
    REQUIRE(port.until([&] { return port.port->unknown_connections() == 1; }));
    std::vector<UniqueFd> crowd;
    for (int i = 0; i < 8; ++i) {
      crowd.push_back(port.connect("127.0.0.3"));
      REQUIRE(port.until([&] { return port.port->unknown_connections() == std::size_t(std::min(i + 2, 4)); }));
    }
    REQUIRE(port.until([&] { return closed(crowd[4]); }));
    CHECK_FALSE(closed(slow));
    CHECK_FALSE(closed(crowd[5]));
    const UniqueFd third = port.connect("127.0.0.4");
    REQUIRE(port.until([&] { return closed(crowd[5]); }));
    CHECK_FALSE(closed(slow));
  }
  SECTION("time, however busy it is") {
    Port port(secret, 4, 200ms);
    const UniqueFd slow = port.connect();
    REQUIRE(::send(slow.get(), "\x16", 1, 0) == 1);
    REQUIRE(port.until([&] { return closed(slow); }));
    CHECK(port.lines.size() == 1);
  }
}

TEST_CASE("a listener may go while its timers run and strangers are there") {
  Port port(JobSecret::generate().value(), 1, 20s, 20s);
  const auto first = port.connect();   // arms the deadline
  const auto second = port.connect();  // there is no room for: the listener pauses
  port.io.run_one_for(1s);
  port.port.reset();
  while (port.io.poll() != 0) continue;
  CHECK(port.lines.empty());
}

TEST_CASE("without a token the first byte tells") {
  Port port(std::nullopt);
  const UniqueFd agent = port.connect();
  REQUIRE(::send(agent.get(), kRoundGreeting.data(), kRoundGreeting.size(), 0) > 0);
  REQUIRE(port.until([&] { return port.agents.size() == 1; }));
  CHECK(port.agents[0] == kRoundGreeting);
  // A node that wants TLS
  const UniqueFd tls = port.connect();
  REQUIRE(::send(tls.get(), "\x16\x03\x01", 3, 0) == 3);
  REQUIRE(port.until([&] { return closed(tls); }));
  REQUIRE(port.lines.size() == 1);
  CHECK(port.lines[0].find("without --insecure") != std::string::npos);
  CHECK(port.stores.empty());
}
