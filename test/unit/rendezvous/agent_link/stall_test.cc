// An agent that was kept from running (SIGSTOP, a suspended machine): what came meanwhile is read before anybody is
// judged by silence, also where the timers went off first. To be stalled is, here, that nobody runs the loop.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/agent_link/round_host.h"
#include "rendezvous/agent_link/round_link.h"
#include "rendezvous/net/listen.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

// The other end of a connection, in the hands of the test.
struct Hand {
  UniqueFd fd;
  RoundDecoder decoder;
  std::vector<RoundMessage> heard;

  void say(const RoundMessage& message) { write(encode(message)); }
  void write(std::string_view bytes) {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size()));
  }
  template <class M>
  const M* last() const {
    for (auto it = heard.rbegin(); it != heard.rend(); ++it)
      if (const auto* found = std::get_if<M>(&*it)) return found;
    return nullptr;
  }
  // As a node does, it answers its host's welcome. False: the connection has ended.
  bool read() {
    char buffer[4096];
    for (;;) {
      const ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (size == 0) return false;
      if (size < 0) return true;
      decoder.feed({buffer, std::size_t(size)});
      while (decoder.next() == RoundDecoder::Status::message) {
        heard.push_back(decoder.message());
        if (std::holds_alternative<msg::Welcome>(heard.back())) say(msg::Here{});
      }
    }
  }
  // Nothing of ours runs until then.
  void stall_until(MonoTime end) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now());
      if (left <= 0ms) return;
      pollfd nothing{fd.get(), 0, 0};
      ::poll(&nothing, 1, int(left.count()));
    }
  }
};

template <class Condition>
bool until(boost::asio::io_context& io, Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (std::chrono::steady_clock::now() < limit) {
    if (condition()) return true;
    io.run_one_for(100ms);
  }
  return false;
}

// More than Asio takes from the kernel at once: so it does not see all that has come when it sees that a timer is over.
constexpr int kMany = 200;

// Connections that something else of an agent reads, as the outputs of its workers.
struct Others {
  explicit Others(boost::asio::io_context& io) {
    for (int i = 0; i < kMany; ++i) {
      int ends[2] = {-1, -1};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
      near.emplace_back(io, ends[0]);
      far.emplace_back(ends[1]);
      near.back().async_wait(boost::asio::posix::stream_descriptor::wait_read, [](const auto&) {});
    }
  }
  void talk() const {
    for (const UniqueFd& fd : far) REQUIRE(::send(fd.get(), "x", 1, MSG_NOSIGNAL) == 1);
  }
  std::vector<boost::asio::posix::stream_descriptor> near;
  std::vector<UniqueFd> far;
};

NodeInfo node(const std::string& id, int min_nodes = kMany) {
  NodeInfo info;
  info.job = "job";
  info.agent_id = id;
  info.host = "h";
  info.role = "default";
  info.workers = 1;
  info.min_nodes = min_nodes;
  info.max_nodes = kMany;
  return info;
}

}  // namespace

TEST_CASE("a node that was stalled reads its host's answer before it believes itself cut off") {
  const PulseSettings pulse{1500ms, 3};
  bool late = true;  // the test itself was kept from running for longer than all this bears
  for (int attempt = 0; attempt < 3 && late; ++attempt) {
    boost::asio::io_context io(1);
    auto listener = listen_at("127.0.0.1", 0);
    REQUIRE(listener.ok());
    std::string lost;
    RoundLink link(io, {[](const RoundMessage&) {}, [](const Error& e) { FAIL(e.message); },
                        [&](bool, const std::string& why, TlsFault) { lost = why; }});
    link.connect({{"127.0.0.1"}, *port_of_socket(listener->get()), true, {}, pulse}, node("a"));
    Hand host;
    REQUIRE(until(io, [&] {
      host.fd.reset(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      return bool(host.fd);
    }));
    host.write(kRoundGreeting);
    REQUIRE(until(io, [&] { return host.read() && host.last<msg::Join>() != nullptr; }));
    const MonoTime joined = SteadyClock::now();  // a little after it said so
    host.say(msg::Welcome{});
    REQUIRE(until(io, [&] { return host.read() && host.last<msg::Ping>() != nullptr; }));
    const std::int64_t sent = host.last<msg::Ping>()->sent;

    const Others others(io);
    io.poll();
    host.stall_until(joined + pulse.stop_after());  // its timer goes off
    others.talk();
    host.say(msg::Pong{sent});
    host.heard.clear();
    REQUIRE(until(io, [&] { return !host.read() || host.last<msg::Ping>() != nullptr; }));
    late = SteadyClock::now() >= MonoTime(MonoTime::duration(sent)) + pulse.stop_after();
    if (late) continue;
    CHECK(lost.empty());
    CHECK(host.last<msg::Ping>() != nullptr);
  }
  CHECK_FALSE(late);
}

TEST_CASE("a host that was stalled reads what its nodes said before it gives them up") {
  const PulseSettings pulse{};
  boost::asio::io_context io(1);
  RoundSettings settings;
  settings.job = "job";
  settings.host_agent = "0";
  settings.min_nodes = settings.max_nodes = kMany;
  RoundHost host(io, settings, {[](int) {}, pulse});
  std::vector<Hand> nodes;
  for (int i = 0; i < kMany; ++i) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    i == 0 ? host.adopt_own(UniqueFd(ends[0])) : host.adopt({UniqueFd(ends[0])}, {});
    nodes.push_back({UniqueFd(ends[1]), {}, {}});
    nodes.back().write(kRoundGreeting);
  }
  // All at once, so that the last has not been silent for long when the round opens.
  for (int i = 0; i < kMany; ++i) nodes[std::size_t(i)].say(msg::Join{node(std::to_string(i))});
  REQUIRE(until(io, [&] {
    for (Hand& each : nodes) each.read();
    return nodes[0].last<msg::Open>() != nullptr;
  }));

  nodes[0].stall_until(SteadyClock::now() + pulse.lost_after());  // its timer goes off
  for (Hand& each : nodes) each.say(msg::Over{0, true});
  REQUIRE(until(io, [&] { return nodes[0].read() && nodes[0].last<msg::End>() != nullptr; }));
  CHECK(nodes[0].last<msg::End>()->verdict.reason == "all workers ended with exit code 0");
}

namespace {

// A job of three nodes, two of which are enough, and the hands of its nodes.
struct Trio {
  explicit Trio(boost::asio::io_context& io) : host(io, settings(), {[](int) {}, PulseSettings{2s, 3}}) {
    for (int i = 0; i < 3; ++i) {
      int ends[2] = {-1, -1};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
      i == 0 ? host.adopt_own(UniqueFd(ends[0])) : host.adopt({UniqueFd(ends[0])}, {});
      nodes.push_back({UniqueFd(ends[1]), {}, {}});
      nodes.back().write(kRoundGreeting);
      NodeInfo info = node(std::to_string(i), 2);
      info.max_nodes = 3;
      nodes.back().say(msg::Join{info});
    }
    REQUIRE(until(io, [&] {
      for (Hand& each : nodes) each.read();
      return nodes[1].last<msg::Open>() != nullptr;
    }));
  }
  static RoundSettings settings() {
    RoundSettings settings;
    settings.job = "job";
    settings.host_agent = "0";
    settings.min_nodes = 2;
    settings.max_nodes = 3;
    return settings;
  }
  // Node 2 leaves; the others have stopped their workers.
  void lose_last() {
    nodes[2].fd.reset();
    for (Hand* hand : {&nodes[0], &nodes[1]}) hand->say(msg::Over{0, false});
  }
  bool goes_on() {
    nodes[1].read();
    return nodes[1].last<msg::Open>()->place.round == 1;
  }
  RoundHost host;
  std::vector<Hand> nodes;
};

}  // namespace

TEST_CASE("an agent that has died is waited for less than a connection that broke in another way") {
  boost::asio::io_context io(1);
  Trio closed(io), reset(io);
  REQUIRE(until(io, [&] { return closed.nodes[2].read() && closed.nodes[2].last<msg::Open>() != nullptr; }));
  closed.lose_last();
  reset.lose_last();  // with something unread, which the host's end is told as a reset
  REQUIRE(until(io, [&] { return closed.goes_on(); }));
  CHECK_FALSE(reset.goes_on());
}

TEST_CASE("what a node said before it gave its host up is read, but does not make it a node of the job") {
  boost::asio::io_context io(1);
  RoundSettings settings;
  settings.job = "job";
  settings.host_agent = "0";
  settings.min_nodes = settings.max_nodes = 2;
  RoundHost host(io, settings, {[](int) {}, PulseSettings{}});
  const auto come = [&](const std::string& id, int attempt) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    id == "0" ? host.adopt_own(UniqueFd(ends[0])) : host.adopt({UniqueFd(ends[0])}, {});
    Hand hand{UniqueFd(ends[1]), {}, {}};
    hand.write(kRoundGreeting);
    NodeInfo info = node(id, 2);
    info.max_nodes = 2;
    info.attempt = attempt;
    hand.say(msg::Join{info});
    return hand;
  };
  Hand own = come("0", 1);
  REQUIRE(until(io, [&] { return own.read() && own.last<msg::Waiting>() != nullptr; }));
  SECTION("the host reads it after the connection has ended") { come("1", 1).fd.reset(); }
  SECTION("the connection ends while the welcome is under way") {
    const Hand first = come("1", 1);
    REQUIRE(until(io, [&] {
      char welcome[64];
      return ::recv(first.fd.get(), welcome, sizeof welcome, MSG_PEEK | MSG_DONTWAIT) > ssize_t(kRoundGreeting.size());
    }));
  }
  Hand again = come("1", 2);
  REQUIRE(until(io, [&] { return own.read() && again.read() && again.last<msg::Open>() != nullptr; }));
  REQUIRE(until(io, [&] { return host.connections() == 2; }));
  io.poll();
  CHECK(own.read());
  CHECK(own.last<msg::Open>() != nullptr);
  CHECK(own.last<msg::Stop>() == nullptr);
  CHECK(own.last<msg::End>() == nullptr);
}

TEST_CASE("a connection that says Join and does not answer its welcome is closed") {
  boost::asio::io_context io(1);
  RoundHost host(io, Trio::settings(), {[](int) {}, PulseSettings{}});
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  host.adopt({UniqueFd(ends[0])}, {});
  Hand hand{UniqueFd(ends[1]), {}, {}};
  hand.write(kRoundGreeting);
  hand.say(msg::Join{node("1", 2)});
  CHECK(until(io, [&] { return host.connections() == 0; }));
  CHECK(host.core().members() == 0);
}
