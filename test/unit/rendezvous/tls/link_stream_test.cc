// LinkStream over a socket pair, in clear and through TLS: pauses, a full stream, and the ways in which one ends.
#include "rendezvous/tls/link_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/net/listen.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

class Stream final : public LinkStream {
 public:
  Stream(boost::asio::io_context& io, LinkSocket socket, const LinkStreamLimits& limits = kDefault)
      : LinkStream(io, std::move(socket), limits) {}

  using LinkStream::fail_soon;
  using LinkStream::finish;
  using LinkStream::queue;
  using LinkStream::read_all;
  using LinkStream::release;
  using LinkStream::resume;
  using LinkStream::wait_connected;
  using LinkStream::write;
  using LinkStream::write_soon;

  struct End {
    LinkBytes::Status how;
    std::string reason;
  };

  std::string heard;
  int turns = 0, drains = 0, writes_late = 0;
  std::size_t most = std::size_t{1} << 30;  // what room() allows
  std::optional<End> end;
  std::function<void()> on_received = [] {};

 private:
  static constexpr LinkStreamLimits kDefault{};

  void received(std::string_view bytes) override {
    heard += bytes;
    on_received();
  }
  std::size_t room() override { return std::min(most, limits().read_bytes); }
  void turn() override { ++turns; }
  void written() override { ++writes_late; }
  void drained() override { ++drains; }
  void closed(LinkBytes::Status how, const std::string& reason) override {
    REQUIRE_FALSE(end);
    CHECK_FALSE(open());
    end = End{how, reason};
  }
};

struct Loop {
  template <class Condition>
  bool until(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < limit) {
      io.restart();
      io.run_one_for(100ms);
    }
    return condition();
  }
  // All that is ready now.
  void settle() {
    io.restart();
    while (io.poll() != 0) continue;
  }
  boost::asio::io_context io;
};

// A stream, and the other end as a bare socket.
struct Plain : Loop {
  explicit Plain(const LinkStreamLimits& limits) : used(limits) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    peer = UniqueFd(ends[1]);
    stream = std::make_shared<Stream>(io, LinkSocket{UniqueFd(ends[0])}, used);
  }
  Plain() : Plain(LinkStreamLimits{}) {}

  void say(std::string_view text) const {
    REQUIRE(::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size()));
  }
  // What the peer finds, and whether it finds the end.
  std::pair<std::string, bool> take() const {
    std::string all;
    std::vector<char> buffer(65536);
    for (;;) {
      const ssize_t got = ::recv(peer.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) return {std::move(all), got == 0};
      all.append(buffer.data(), std::size_t(got));
    }
  }

  const LinkStreamLimits used;
  UniqueFd peer;
  std::shared_ptr<Stream> stream;
};

}  // namespace

TEST_CASE("link stream: bytes go both ways, at once or at the end of the turn") {
  Plain p;
  p.stream->write("now");
  CHECK(p.take().first == "now");
  p.stream->queue().append("so");
  p.stream->write_soon();
  p.stream->queue().append("on");
  CHECK(p.take().first.empty());
  p.settle();
  CHECK(p.take().first == "soon");
  p.say("hello");
  p.stream->resume();
  REQUIRE(p.until([&] { return p.stream->heard == "hello"; }));
}

TEST_CASE("link stream: nothing is read while there is no room") {
  Plain p({.read_bytes = 4, .reads_per_turn = 2});
  p.say("0123456789abcdef");
  p.stream->resume();
  REQUIRE(p.until([&] { return p.stream->turns == 1; }));
  CHECK(p.stream->heard == "01234567");  // two reads of four bytes, then others have their turn
  p.stream->most = 0;
  p.settle();
  CHECK(p.stream->heard == "01234567");
  p.stream->most = 3;
  p.settle();
  CHECK(p.stream->heard == "01234567");  // it was not told
  p.stream->resume();
  REQUIRE(p.until([&] { return p.stream->heard.size() == 16; }));
}

TEST_CASE("link stream: it is full until most of what waits is written") {
  Plain p({.full_bytes = 300'000, .drained_bytes = 100'000});
  const std::string block(100'000, 'x');
  std::size_t said = 0;
  while (!p.stream->full()) {
    p.stream->write(block);
    said += block.size();
  }
  CHECK(p.stream->queue().size() > 300'000);
  std::size_t heard = 0;
  REQUIRE(p.until([&] {
    heard += p.take().first.size();
    return !p.stream->full();
  }));
  CHECK(p.stream->queue().size() <= 100'000);
  REQUIRE(p.until([&] { return (heard += p.take().first.size()) == said; }));
  CHECK(p.stream->drains == 1);
  CHECK(p.stream->writes_late >= 1);
}

TEST_CASE("link stream: a peer that has left is heard to its end") {
  Plain p;
  p.say("last words");
  p.peer.reset();
  p.stream->write("in vain");
  p.stream->write("again");
  CHECK(p.stream->open());
  p.stream->resume();
  REQUIRE(p.until([&] { return p.stream->end.has_value(); }));
  CHECK(p.stream->heard == "last words");
  CHECK(p.stream->end->how == LinkBytes::Status::ended);
  CHECK(p.stream->end->reason.empty());
}

TEST_CASE("link stream: a full stream whose peer leaves is drained and ends") {
  Plain p({.full_bytes = 300'000});
  p.stream->most = 0;
  while (!p.stream->full()) p.stream->write(std::string(100'000, 'x'));
  p.peer.reset();
  REQUIRE(p.until([&] { return p.stream->drains == 1; }));
  CHECK(p.stream->queue().empty());
  p.stream->most = 1000;
  p.stream->resume();
  REQUIRE(p.until([&] { return p.stream->end.has_value(); }));
}

TEST_CASE("link stream: once finished, it writes the rest, drops what comes, and says that nothing more follows") {
  Plain p;
  std::size_t said = 0;
  while (p.stream->queue().empty()) {
    p.stream->write(std::string(100'000, 'x'));
    said += 100'000;
  }
  p.stream->finish();
  p.stream->write("too late");
  p.say("too late");
  p.stream->resume();
  std::size_t heard = 0;
  bool ended = false;
  REQUIRE(p.until([&] {
    auto [bytes, end] = p.take();
    heard += bytes.size();
    return ended = end;
  }));
  CHECK(heard == said);
  CHECK(p.stream->heard.empty());
  CHECK_FALSE(p.stream->end);
}

TEST_CASE("link stream: a failure is told later and once, and closing tells nobody") {
  Plain p;
  SECTION("failure") {
    p.stream->fail_soon("too much");
    p.stream->fail_soon("much too much");
    CHECK_FALSE(p.stream->end);
    REQUIRE(p.until([&] { return p.stream->end.has_value(); }));
    p.settle();
    CHECK(p.stream->end->how == LinkBytes::Status::failed);
    CHECK(p.stream->end->reason == "too much");
  }
  SECTION("closed in a hook, and left by its owner") {
    const std::weak_ptr<Stream> alive = p.stream;
    p.stream->on_received = [&] {
      p.stream->close();
      CHECK_FALSE(p.stream->end);
      p.stream.reset();
    };
    p.say("x");
    p.stream->resume();
    REQUIRE(p.until([&] { return alive.expired(); }));
    CHECK(p.take().second);
  }
  SECTION("given up in a hook") {
    UniqueFd given;
    p.stream->on_received = [&] { given = p.stream->release(); };
    p.say("x");
    p.stream->resume();
    REQUIRE(p.until([&] { return bool(given); }));
    p.settle();
    CHECK_FALSE(p.take().second);
    CHECK_FALSE(p.stream->end);
  }
}

TEST_CASE("link stream: all that has come is read at once when that is asked for") {
  Plain p({.read_bytes = 4});
  p.say("0123456789");
  p.stream->read_all(2);
  CHECK(p.stream->heard == "01234567");
  p.stream->read_all(10);
  CHECK(p.stream->heard == "0123456789");
  CHECK_FALSE(p.stream->end);
}

TEST_CASE("link stream: what was written before the connection was there is sent, or its failure is told") {
  Loop loop;
  auto listener = listen_at("127.0.0.1", 0);
  REQUIRE(listener.ok());
  const std::uint16_t port = *port_of_socket(listener->get());
  const bool there = GENERATE(true, false);
  if (!there) listener->reset();
  auto socket = begin_connect("127.0.0.1", port);
  REQUIRE(socket.ok());
  const auto stream = std::make_shared<Stream>(loop.io, LinkSocket{std::move(*socket)});
  stream->wait_connected();
  stream->write("early");
  if (!there) {
    REQUIRE(loop.until([&] { return stream->end.has_value(); }));
    CHECK(stream->end->how == LinkBytes::Status::failed);
    CHECK(stream->end->reason == "cannot connect: Connection refused");
    return;
  }
  UniqueFd peer;
  std::string heard;
  REQUIRE(loop.until([&] {
    if (!peer) peer = UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    char buffer[16];
    const ssize_t got = peer ? ::recv(peer.get(), buffer, sizeof buffer, MSG_DONTWAIT) : 0;
    if (got > 0) heard.append(buffer, std::size_t(got));
    return heard == "early";
  }));
}

TEST_CASE("link stream: through TLS it is the same, and its end is told") {
  Loop loop;
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  const auto secret = JobSecret::generate().value();
  auto client = TlsSession::client(secret, {LinkRole::store, 7, "job"});
  auto server = TlsSession::server(secret, "job");
  REQUIRE((client.ok() && server.ok()));
  const auto near = std::make_shared<Stream>(loop.io, LinkSocket{UniqueFd(ends[0]), std::move(*client)});
  const auto far = std::make_shared<Stream>(loop.io, LinkSocket{UniqueFd(ends[1]), std::move(*server)});
  near->resume();
  far->resume();
  near->write("hello");  // before the handshake, when no more than kTlsEarlyBytes may wait
  REQUIRE(loop.until([&] { return far->heard == "hello"; }));
  far->heard.clear();
  const std::string much(3'000'000, 'y');
  near->queue().append(much);
  near->write_soon();
  REQUIRE(loop.until([&] { return far->heard.size() == much.size(); }));
  CHECK((far->heard == much));
  far->write("thanks");
  far->close();
  REQUIRE(loop.until([&] { return near->end.has_value(); }));
  CHECK(near->heard == "thanks");
  CHECK(near->end->reason.empty());
}
