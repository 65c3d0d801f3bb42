// StoreHost over real loopback sockets: who gets in, who is turned away, and many at once.
#include "rendezvous/store_server/store_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/peer_uid.h"
#include "test/support/catch.h"
#include "test/support/skip.h"
#include "test/unit/rendezvous/store_bytes.h"
#include "test/unit/rendezvous/store_client.h"

namespace {

using dtrain::StoreHost;
using dtrain::StoreOp;
using dtrain::UniqueFd;
using dtrain::store_test::Client;
using dtrain::store_test::eventually;
using dtrain::store_test::fall_asleep;
using dtrain::store_test::Log;
using dtrain::store_test::start;
namespace bytes = dtrain::store_bytes;

constexpr int kDeadlineMs = dtrain::store_test::kDeadlineMs;
const std::string kGo(1, '\0');

}  // namespace

TEST_CASE("store host: a greeting cut in pieces is a greeting") {
  const auto store = start();
  Client client(store->port());
  const std::string message = bytes::greeting() + bytes::ping(9);
  for (const char c : message) REQUIRE(client.send({&c, 1}));
  CHECK(client.read(4) == bytes::u32(9));
}

TEST_CASE("store host: strangers are turned away at once, with a reason") {
  Log log;
  const auto store = start({.log = log.sink()});
  Client http(store->port());
  http.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(http.closed_by_server());
  Client garbage(store->port());
  garbage.send(std::string(100000, '\xff'));
  CHECK(garbage.closed_by_server());
  Client magic(store->port());
  magic.send(std::string(5, '\0'));
  CHECK(magic.closed_by_server());
  Client good(store->port());
  REQUIRE(good.greet());
  good.send(bytes::op(StoreOp::get) + bytes::i64(1 << 20));
  CHECK(good.closed_by_server());
  CHECK(log.has("first byte is 0x47"));
  CHECK(log.has("wrong magic word"));
  CHECK(log.has("key of 1048576 bytes, at most 8192 are allowed"));
  CHECK(eventually(*store, [](const auto& stats) {
    return stats.connections_refused == 4 && stats.connections_open == 0 && stats.connections_accepted == 4;
  }));
}

TEST_CASE("store host: who does not greet in time is closed, others are served meanwhile") {
  Log log;
  StoreHost::Options options{.log = log.sink()};
  options.limits.greeting = std::chrono::milliseconds(1000);
  const auto store = start(options);
  std::vector<Client> silent;
  for (int i = 0; i < 50; ++i) silent.emplace_back(store->port());
  silent.front().send(bytes::greeting().substr(0, 3));
  Client good(store->port());
  REQUIRE(good.greet());
  for (auto& client : silent) CHECK(client.closed_by_server());
  CHECK(good.ask(bytes::add("n", 1), 8) == bytes::i64(1));
  CHECK(log.has("no greeting in time"));
}

TEST_CASE("store host: more silent connections than allowed push out the oldest") {
  StoreHost::Options options;
  options.limits.silent_connections = 2;
  const auto store = start(options);
  Client first(store->port());
  Client second(store->port());
  Client third(store->port());
  CHECK(first.closed_by_server());
  CHECK(second.greet());
  CHECK(third.greet());
}

TEST_CASE("store host: connections over the cap are served when one ends") {
  StoreHost::Options options;
  options.limits.connections = 1;
  const auto store = start(options);
  Client second(0);
  {
    Client first(store->port());
    REQUIRE(first.greet());
    second = Client(store->port());
    REQUIRE(second.send(bytes::greeting() + bytes::ping(3)));
    CHECK(eventually(*store, [](const auto& stats) { return stats.connections_open == 1; }));
  }
  CHECK(second.read(4) == bytes::u32(3));
}

TEST_CASE("store host: 60,000 keys in one request and back") {
  const auto store = start();
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<std::string> names;
  std::string expected;
  for (int i = 0; i < 60000; ++i) {
    pairs.emplace_back("/key/" + std::to_string(i), "value of " + std::to_string(i));
    names.push_back(pairs.back().first);
    expected += bytes::text(pairs.back().second);
  }
  Client client(store->port());
  REQUIRE(client.greet());
  REQUIRE(client.send(bytes::multi_set(pairs)));
  CHECK(client.ask(bytes::keys(StoreOp::multi_get, names), expected.size()) == expected);
  CHECK(client.ask(bytes::op(StoreOp::num_keys), 8) == bytes::i64(60000));
}

TEST_CASE("store host: 1,000 clients wait for one key") {
  const auto store = start();
  std::vector<Client> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(store->port());
    REQUIRE(clients.back().send(bytes::greeting() + bytes::wait({"go"})));
  }
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_waiting == 1000; }));
  clients.erase(clients.begin() + 900, clients.end());
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_waiting == 900; }));
  Client setter(store->port());
  REQUIRE(setter.greet());
  REQUIRE(setter.send(bytes::set("go", "")));
  for (auto& client : clients) REQUIRE(client.read(1) == kGo);
  CHECK(eventually(*store, [](const auto& stats) { return stats.connections_waiting == 0; }));
}

TEST_CASE("store host: a client that never reads is closed at its limit, a slow one gets everything") {
  Log log;
  StoreHost::Options options{.log = log.sink()};
  options.limits.output_bytes = 24 << 20;
  const auto store = start(options);
  const std::string value(8 << 20, 'v');
  Client slow(store->port());
  REQUIRE(slow.greet());
  REQUIRE(slow.ask(bytes::set("big", value) + bytes::ping(4), 4) == bytes::u32(4));
  REQUIRE(slow.send(bytes::get("big") + bytes::get("big")));
  Client greedy(store->port());
  REQUIRE(greedy.greet());
  // In one piece, so that all are read before the store stops listening to a client that does not.
  std::string gets;
  for (int i = 0; i < 40; ++i) gets += bytes::get("big");
  greedy.send(gets);
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_refused == 1; }));
  CHECK(log.has("client has left more than 25165824 bytes of replies unread"));
  CHECK(slow.read(2 * (8 + value.size())) == bytes::text(value) + bytes::text(value));
  CHECK(slow.ask(bytes::ping(5), 4) == bytes::u32(5));
}

TEST_CASE("store host: unfinished requests of all clients together are bounded") {
  Log log;
  StoreHost::Options options{.log = log.sink()};
  options.limits.buffer_bytes = 20 << 20;
  const auto store = start(options);
  const std::string unfinished = bytes::greeting() + bytes::set("k", std::string(8 << 20, 'v')).substr(0, 7 << 20);
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(store->port());
    clients.back().send(unfinished);
  }
  CHECK(eventually(*store, [](const auto& stats) { return stats.connections_refused > 0; }));
  CHECK(log.has("all connections together hold more than 20971520 bytes"));
  Client good(store->port());
  CHECK(good.greet());
}

TEST_CASE("store host: out of descriptors, silent connections make room") {
  const auto store = start();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<Client> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(store->port());
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_open == 8; }));
  // Our own next socket takes the last descriptor, so the server's end of it cannot be accepted.
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(lowest_free) + 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  Client good(store->port());
  const bool greeted = good.greet();
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(greeted);
  CHECK(silent.front().closed_by_server());
}

TEST_CASE("store host: a port in use and a name for an address are clear errors") {
  const auto store = start();
  const auto taken = StoreHost::start({.port = store->port()});
  REQUIRE(!taken.ok());
  // By this very process.
  CHECK(taken.error().message.find("the worker store: cannot listen at 127.0.0.1:" + std::to_string(store->port()) +
                                   ": the port is taken by ") == 0);
  CHECK(taken.error().message.find("(pid " + std::to_string(::getpid()) + ")") != std::string::npos);
  const auto named = StoreHost::start({.address = "localhost"});
  REQUIRE(!named.ok());
  CHECK(named.error().message == "the worker store: 'localhost' is not a numeric IPv4 or IPv6 address");
}

TEST_CASE("store host: renewed, it has no keys and no clients of before") {
  const auto store = start();
  Client before(store->port());
  REQUIRE(before.greet());
  REQUIRE(before.ask(bytes::add("key", 5), 8) == bytes::i64(5));
  store->renew();
  CHECK(before.closed_by_server());
  CHECK(store->stats().keys == 0);
  Client after(store->port());
  REQUIRE(after.greet());
  CHECK(after.ask(bytes::add("key", 5), 8) == bytes::i64(5));
}

TEST_CASE("store host: connections of the other protocol are handed over with what they said") {
  std::promise<std::string> handed;
  StoreHost::Options options;
  options.adopt_byte = '\xD7';
  options.adopt = [&](UniqueFd socket, std::string received) {
    const bool sent = ::send(socket.get(), "hello", 5, MSG_NOSIGNAL) == 5;
    handed.set_value(sent ? std::move(received) : "not sent");
  };
  const auto store = start(std::move(options));
  Client other(store->port());
  REQUIRE(other.send("\xD7 and more"));
  auto received = handed.get_future();
  REQUIRE(received.wait_for(std::chrono::milliseconds(kDeadlineMs)) == std::future_status::ready);
  CHECK(received.get() == "\xD7 and more");
  CHECK(other.read(5) == "hello");
  // A client's later byte of that value is no greeting.
  Client client(store->port());
  REQUIRE(client.greet());
  const std::string rest = bytes::ping(0x010203D7);
  REQUIRE(client.send(rest.substr(0, 1)));
  CHECK(client.ask(rest.substr(1), 4) == bytes::u32(0x010203D7));
}

TEST_CASE("store host: the thread of an idle store with waiting clients does not wake up") {
  StoreHost::Options options;
  options.limits.greeting = std::chrono::milliseconds(1500);
  const auto store = start(options);
  std::vector<Client> clients;
  for (int i = 0; i < 10; ++i) {
    clients.emplace_back(store->port());
    REQUIRE(clients.back().send(bytes::greeting() + bytes::wait({"never"})));
  }
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_waiting == 10; }));
  CHECK(fall_asleep());
}

TEST_CASE("store host: destruction closes connections that wait") {
  auto store = start();
  Client waiter(store->port());
  REQUIRE(waiter.send(bytes::greeting() + bytes::wait({"never"})));
  REQUIRE(eventually(*store, [](const auto& stats) { return stats.connections_waiting == 1; }));
  store.reset();
  CHECK(waiter.closed_by_server());
}

TEST_CASE("store host: the allowed user is served over IPv4") {
  const auto v4 = start({.allowed_uid = ::geteuid()});
  CHECK(Client(v4->port()).greet());
}

TEST_CASE("store host: the allowed user is served over IPv6") {
  auto v6 = StoreHost::start({.address = "::1", .allowed_uid = ::geteuid()});
  if (!v6.ok()) DTRAIN_SKIP("no IPv6 loopback: " + v6.error().message);
  CHECK(Client((*v6)->port(), AF_INET6).greet());
}

namespace {

// In a child that has become user `uid`: whether the store serves it. Only system calls between fork and _exit.
bool served_as(uid_t uid, std::uint16_t port) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(uid, uid, uid) != 0) ::_exit(3);
    Client client(port);
    ::_exit(client.greet() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) != 3);
  return WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("store host: processes of another user are refused, root included") {
  if (::geteuid() != 0) DTRAIN_SKIP("only root can become another user to try");
  Log log;
  const auto roots = start({.allowed_uid = 0, .log = log.sink()});
  CHECK(served_as(0, roots->port()));
  CHECK_FALSE(served_as(1234, roots->port()));
  CHECK(log.has("refused a connection of user 1234: only user 0 may use this store"));
  const auto users = start({.allowed_uid = 1234});
  CHECK(served_as(1234, users->port()));
  CHECK_FALSE(served_as(65534, users->port()));
  CHECK_FALSE(served_as(0, users->port()));
}

TEST_CASE("store host: replies that nobody reads are refused before they are made, and others are served") {
  Log log;
  StoreHost::Options options{.log = log.sink()};
  options.limits.core.bytes = std::size_t{40} << 20;
  options.limits.core.reserve = std::size_t{24} << 20;
  const auto store = start(options);
  const std::string value(std::size_t{8} << 20, 'v');
  Client good(store->port());
  REQUIRE(good.greet());
  REQUIRE(good.ask(bytes::multi_set({{"a", value}, {"b", value}}) + bytes::ping(1), 4) == bytes::u32(1));
  std::vector<Client> greedy;
  for (int i = 0; i < 40; ++i) {
    greedy.emplace_back(store->port());
    REQUIRE(greedy.back().greet());
    greedy.back().send(bytes::keys(StoreOp::multi_get, {"a", "b"}));
    REQUIRE(good.ask(bytes::set("x", "y") + bytes::get("x"), 9) == bytes::text("y"));
  }
  // 16 MiB are stored and 64 may be there. A reply of 16 MiB takes twice that while it is made: the first one fits, and
  // perhaps a second one, by what the sockets take.
  CHECK(eventually(*store, [](const auto& stats) { return stats.connections_refused >= 38; }));
  CHECK(log.has("no room for its reply: too many replies are not read"));
  CHECK(greedy.front().read(2 * (8 + value.size())) == bytes::text(value) + bytes::text(value));
  // It was read, and the next one has room.
  CHECK(good.ask(bytes::get("a"), 8 + value.size()) == bytes::text(value));
}

TEST_CASE("store host: before the first round there are no clients, where that is asked for") {
  std::promise<void> knocked;
  StoreHost::Options options;
  options.early = [&] { knocked.set_value(); };
  const auto store = start(options);
  Client torchrun(store->port());
  torchrun.send(bytes::greeting() + bytes::ping(1));
  CHECK(torchrun.closed_by_server());
  CHECK(knocked.get_future().wait_for(std::chrono::milliseconds(kDeadlineMs)) == std::future_status::ready);
  store->begin_round(0);
  Client worker(store->port());
  CHECK(worker.greet());
}
