// A store and its edges over real loopback sockets: workers of other nodes see one store, its host sees who is lost,
// and nobody waits for what cannot come.
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/store_relay/store_link_wire.h"
#include "rendezvous/store_server/store_host.h"
#include "test/support/catch.h"
#include "test/unit/rendezvous/store_bytes.h"
#include "test/unit/rendezvous/store_client.h"

namespace {

using dtrain::JobSecret;
using dtrain::put_store_link_frame;
using dtrain::StoreHost;
using dtrain::StoreLinkType;
using dtrain::StoreOp;
using dtrain::StoreRemote;
using dtrain::TlsSession;
using dtrain::UniqueFd;
using dtrain::store_test::Client;
using dtrain::store_test::eventually;
using dtrain::store_test::fall_asleep;
using dtrain::store_test::kDeadlineMs;
using dtrain::store_test::Log;
using dtrain::store_test::start;
namespace bytes = dtrain::store_bytes;

const std::string kGo(1, '\0');
constexpr std::size_t kMiB = std::size_t{1} << 20;

// A store that takes links at its own port.
class Host {
 public:
  explicit Host(StoreHost::Options options = {}) {
    options.adopt_byte = dtrain::kStoreLinkGreeting.front();
    options.adopt = [this](UniqueFd socket, std::string received) {
      store_->adopt_link(std::move(socket), std::move(received));
    };
    store_ = start(std::move(options));
    store_->begin_round(1);
  }
  StoreHost* operator->() { return store_.get(); }
  StoreHost& operator*() { return *store_; }
  void stop() { store_.reset(); }

 private:
  std::unique_ptr<StoreHost> store_;
};

// What an edge's owner is told.
class Lost {
 public:
  std::function<void(std::uint64_t, const std::string&)> sink() {
    return [this](std::uint64_t round, const std::string& reason) {
      const std::lock_guard lock(mutex_);
      said_ += std::to_string(round) + ": " + reason + "\n";
      changed_.notify_all();
    };
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(kDeadlineMs), [this] { return !said_.empty(); });
    return std::exchange(said_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string said_;
};

StoreHost::Options edge_of(std::uint16_t port) {
  StoreHost::Options options;
  options.remote = StoreRemote{.address = "127.0.0.1", .port = port};
  return options;
}

std::unique_ptr<StoreHost> start_edge(StoreHost::Options options, std::uint64_t round = 1) {
  auto edge = start(std::move(options));
  edge->begin_round(round);
  return edge;
}

Client greeted(const StoreHost& store) {
  Client client(store.port());
  REQUIRE(client.greet());
  return client;
}

// A link made by hand.
std::string link_hello(std::uint64_t round) {
  std::string out(dtrain::kStoreLinkGreeting);
  put_store_link_frame(out, StoreLinkType::hello, round);
  return out;
}

std::string link_frame(StoreLinkType type, std::uint64_t number, std::string_view payload = {}) {
  std::string out;
  put_store_link_frame(out, type, number, payload);
  return out;
}

// Where a job's nodes connect when it is over several hosts: handshakes, one after the other, then hands over.
class TlsGate {
 public:
  TlsGate(StoreHost& host, const JobSecret& secret) : host_(host), secret_(secret) {
    auto listener = dtrain::listen_at("127.0.0.1", 0);
    REQUIRE(listener.ok());
    listener_ = std::move(*listener);
    port_ = *dtrain::port_of_socket(listener_.get());
  }
  std::uint16_t port() const { return port_; }

  bool take_one() {
    pollfd poll{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, kDeadlineMs) <= 0) return false;
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    auto session = TlsSession::server(secret_, "job");
    if (!session) return false;
    std::string plain;
    while (!session->established()) {
      char buffer[4096];
      poll.fd = socket.get();
      if (::poll(&poll, 1, kDeadlineMs) <= 0) return false;
      const ssize_t size = ::recv(socket.get(), buffer, sizeof buffer, 0);
      if (size <= 0 || !session->receive({buffer, static_cast<std::size_t>(size)}, plain)) return false;
      const std::string output = session->take_output();
      if (::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(output.size()))
        return false;
    }
    host_.adopt_link(std::move(socket), std::move(plain), std::move(*session));
    return true;
  }

 private:
  StoreHost& host_;
  const JobSecret& secret_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
};

}  // namespace

TEST_CASE("store relay: over TLS it is the same, and a key is for one round") {
  const auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  Host host;
  TlsGate gate(*host, *secret);
  Lost lost;
  auto options = edge_of(gate.port());
  options.remote->lost = lost.sink();
  std::uint64_t epoch = 1;
  options.remote->secure = [&](std::uint64_t) {
    return TlsSession::client(*secret, {dtrain::LinkRole::store, epoch, "job"});
  };
  const auto edge = start_edge(options);
  REQUIRE(gate.take_one());
  Client client = greeted(*edge);
  const std::string value(8 * kMiB - 3, 't');
  REQUIRE(client.ask(bytes::set("big", value) + bytes::ping(4), 4) == bytes::u32(4));
  std::string gets;
  for (int i = 0; i < 4; ++i) gets += bytes::get("big");
  REQUIRE(client.send(gets));
  for (int i = 0; i < 4; ++i) CHECK(client.read(8 + value.size()) == bytes::text(value));
  Client at_host = greeted(*host);
  REQUIRE(client.send(bytes::wait({"key"})));
  REQUIRE(at_host.send(bytes::set("key", "")));
  CHECK(client.read(1) == kGo);

  epoch = 7;
  edge->begin_round(1);
  REQUIRE(gate.take_one());
  CHECK(lost.wait().find("is lost: its key is for round 7, not for round 1") != std::string::npos);
  CHECK(client.closed_by_server());

  // A host that speaks in clear.
  options.remote->port = host->port();
  const auto confused = start_edge(options);
  CHECK(lost.wait().find("is lost: ") != std::string::npos);
}

TEST_CASE("store relay: workers of all nodes meet in one store") {
  Host host;
  const auto a = start_edge(edge_of(host->port()));
  const auto b = start_edge(edge_of(host->port()));
  Client at_a = greeted(*a);
  Client at_b = greeted(*b);
  Client at_host = greeted(*host);
  REQUIRE(at_b.send(bytes::wait({"key"})));
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 1; }));
  REQUIRE(at_a.send(bytes::set("key", "value")));
  CHECK(at_b.read(1) == kGo);
  CHECK(at_b.ask(bytes::get("key"), 13) == bytes::text("value"));
  CHECK(at_host.ask(bytes::get("key"), 13) == bytes::text("value"));
  CHECK(at_a.ask(bytes::add("n", 1), 8) == bytes::i64(1));
  CHECK(at_b.ask(bytes::add("n", 1), 8) == bytes::i64(2));
  CHECK(at_host.ask(bytes::add("n", 1), 8) == bytes::i64(3));
  for (Client* client : {&at_a, &at_b, &at_host}) REQUIRE(client->send(bytes::barrier("gate", 3)));
  for (Client* client : {&at_a, &at_b, &at_host}) CHECK(client->read(1) == kGo);
  CHECK(host->stats().links == 2);
  CHECK(host->stats().link_connections == 2);
  CHECK(a->stats().keys == 0);
}

TEST_CASE("store relay: a worker that leaves is gone from the store, its neighbours are not") {
  Host host;
  const auto edge = start_edge(edge_of(host->port()));
  Client stays = greeted(*edge);
  std::optional<Client> leaves(greeted(*edge));
  for (Client* client : {&stays, &*leaves}) REQUIRE(client->send(bytes::wait({"key"})));
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 2; }));
  leaves.reset();
  REQUIRE(eventually(*host, [](const auto& s) { return s.connections_waiting == 1 && s.link_connections == 1; }));
  Client setter = greeted(*edge);
  REQUIRE(setter.send(bytes::set("key", "")));
  CHECK(stays.read(1) == kGo);
}

TEST_CASE("store relay: a fault closes its own connection, and both ends have the reason") {
  Host host;
  Log log;
  auto options = edge_of(host->port());
  options.log = log.sink();
  const auto edge = start_edge(std::move(options));
  Client good = greeted(*edge);
  Client bad = greeted(*edge);
  REQUIRE(bad.send(bytes::set("word", "text") + bytes::add("word", 1)));
  CHECK(bad.closed_by_server());
  Client broken = greeted(*edge);
  REQUIRE(broken.send(bytes::op(StoreOp::get) + bytes::i64(1 << 20)));
  CHECK(broken.closed_by_server());
  Client stranger(edge->port());
  REQUIRE(stranger.send("GET / HTTP/1.1\r\n\r\n"));
  CHECK(stranger.closed_by_server());
  CHECK(good.ask(bytes::get("word"), 12) == bytes::text("text"));
  CHECK(log.has("ADD to a value that is not a number"));
  CHECK(log.has("key of 1048576 bytes, at most 8192 are allowed"));
  CHECK(log.has("first byte is 0x47"));
  CHECK(eventually(*host, [](const auto& stats) { return stats.link_connections == 1; }));
}

TEST_CASE("store relay: only links of the open round are welcome, and its store is empty") {
  Host host;
  Lost lost;
  auto options = edge_of(host->port());
  options.remote->lost = lost.sink();
  const auto edge = start_edge(std::move(options));
  Client before = greeted(*edge);
  REQUIRE(before.ask(bytes::add("key", 5), 8) == bytes::i64(5));
  REQUIRE(before.send(bytes::wait({"never"})));
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 1; }));

  host->begin_round(2);
  CHECK(before.closed_by_server());
  const std::string where = "the link to the job's store at 127.0.0.1:" + std::to_string(host->port()) + " is lost: ";
  CHECK(lost.wait() == "1: " + where + "it was closed\n");
  Client between(edge->port());
  CHECK(between.closed_by_server());

  edge->begin_round(1);
  CHECK(lost.wait() == "1: " + where + "round 2 is open, not round 1\n");
  edge->begin_round(2);
  Client after = greeted(*edge);
  CHECK(after.ask(bytes::add("key", 5), 8) == bytes::i64(5));
  CHECK(host->stats().connections_waiting == 0);

  host->renew();
  CHECK(after.closed_by_server());
  CHECK(lost.wait() == "2: " + where + "it was closed\n");
  edge->begin_round(2);
  CHECK(lost.wait() == "2: " + where + "no round is open\n");
}

TEST_CASE("store relay: an edge's next round ends its connections and takes new ones") {
  Host host;
  const auto edge = start_edge(edge_of(host->port()));
  Client before = greeted(*edge);
  edge->begin_round(1);
  CHECK(before.closed_by_server());
  CHECK(greeted(*edge).ask(bytes::add("n", 1), 8) == bytes::i64(1));
  CHECK(eventually(*host, [](const auto& stats) { return stats.links == 1; }));
  edge->renew();
  Client after(edge->port());
  CHECK(after.closed_by_server());
  CHECK(eventually(*host, [](const auto& stats) { return stats.links == 0; }));
}

TEST_CASE("store relay: the host goes, and everybody behind it is told at once") {
  Host host;
  Lost lost;
  auto options = edge_of(host->port());
  options.remote->lost = lost.sink();
  const auto edge = start_edge(std::move(options));
  std::vector<Client> waiters;
  for (int i = 0; i < 20; ++i) {
    waiters.push_back(greeted(*edge));
    REQUIRE(waiters.back().send(bytes::wait({"never"})));
  }
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 20; }));
  host.stop();
  for (auto& waiter : waiters) CHECK(waiter.closed_by_server());
  CHECK(lost.wait().find("is lost: ") != std::string::npos);
}

TEST_CASE("store relay: nobody there, nobody who answers, somebody else") {
  Lost lost;
  const auto closed = dtrain::listen_at("127.0.0.1", 0);
  REQUIRE(closed.ok());
  const auto silent_port = dtrain::port_of_socket(closed->get());
  REQUIRE(silent_port.ok());
  std::uint16_t free_port = 0;
  {
    const auto unused = dtrain::listen_at("127.0.0.1", 0);
    REQUIRE(unused.ok());
    free_port = *dtrain::port_of_socket(unused->get());
  }
  auto options = edge_of(free_port);
  options.remote->lost = lost.sink();
  const auto nobody = start_edge(options);
  CHECK(lost.wait().find("is lost: cannot connect: Connection refused") != std::string::npos);

  options.remote->port = *silent_port;
  options.remote->timeout = std::chrono::milliseconds(100);
  options.remote->attempts = 2;
  const auto silent = start_edge(options);
  Client waits(silent->port());
  REQUIRE(waits.send(bytes::greeting() + bytes::ping(1)));
  CHECK(lost.wait().find("is lost: it does not answer") != std::string::npos);
  CHECK(waits.closed_by_server());

  // A store that takes no links closes what does not greet like a client.
  const auto plain = start();
  options.remote->port = plain->port();
  const auto other = start_edge(options);
  CHECK(lost.wait().find("is lost: ") != std::string::npos);
  options.remote->address = "localhost";
  const auto named = start_edge(options);
  CHECK(lost.wait().find("'localhost' is not a numeric IPv4 or IPv6 address") != std::string::npos);
}

TEST_CASE("store relay: a host that is too busy to answer, or makes room for others, is asked again") {
  Host host;
  const auto silent = dtrain::listen_at("127.0.0.1", 0), closing = dtrain::listen_at("127.0.0.1", 0);
  REQUIRE((silent.ok() && closing.ok()));
  std::atomic<int> attempts = 0;
  auto options = edge_of(host->port());
  options.remote->timeout = std::chrono::milliseconds(300);
  options.remote->connect = [&]() -> dtrain::Result<UniqueFd> {
    const int attempt = ++attempts;
    const int listener = attempt == 1 ? silent->get() : closing->get();
    return dtrain::begin_connect("127.0.0.1", attempt == 3 ? host->port() : *dtrain::port_of_socket(listener));
  };
  Lost lost;
  options.remote->lost = lost.sink();
  const auto edge = start_edge(options);
  Client client(edge->port());
  REQUIRE(client.send(bytes::greeting() + bytes::set("key", "value") + bytes::ping(1)));
  pollfd poll{.fd = closing->get(), .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&poll, 1, kDeadlineMs) == 1);
  UniqueFd(::accept4(closing->get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  CHECK(client.read(4) == bytes::u32(1));
  CHECK(attempts == 3);
  CHECK(greeted(*host).ask(bytes::wait({"key"}), 1) == kGo);
}

TEST_CASE("store relay: clients may come before the link is up") {
  Host host;
  const auto listener = dtrain::listen_at("127.0.0.1", 0);
  REQUIRE(listener.ok());
  const auto edge = start_edge(edge_of(*dtrain::port_of_socket(listener->get())));
  Client first(edge->port());
  Client second(edge->port());
  REQUIRE(first.send(bytes::greeting() + bytes::set("k", std::string(3 * kMiB, 'v')) + bytes::ping(1)));
  REQUIRE(second.send(bytes::greeting()));
  REQUIRE(eventually(*edge, [](const auto& stats) { return stats.connections_open == 2; }));
  CHECK(edge->stats().forwarded_bytes == 0);
  UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  pollfd poll{.fd = listener->get(), .events = POLLIN, .revents = 0};
  while (!socket && ::poll(&poll, 1, kDeadlineMs) > 0) {
    socket.reset(::accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  host->adopt_link(std::move(socket), "");
  CHECK(first.read(4) == bytes::u32(1));
  CHECK(second.ask(bytes::ping(2), 4) == bytes::u32(2));
}

TEST_CASE("store relay: a slow reader gets everything, and its neighbours do not wait for it") {
  Host host;
  const auto edge = start_edge(edge_of(host->port()));
  const std::string value(8 * kMiB, 's');
  Client slow = greeted(*edge);
  Client quick = greeted(*edge);
  REQUIRE(slow.ask(bytes::set("big", value) + bytes::ping(4), 4) == bytes::u32(4));
  std::string gets;
  for (int i = 0; i < 8; ++i) gets += bytes::get("big");
  REQUIRE(slow.send(gets));
  for (int i = 1; i <= 100; ++i) REQUIRE(quick.ask(bytes::add("n", 1), 8) == bytes::i64(i));
  for (int i = 0; i < 8; ++i) REQUIRE(slow.read(8 + value.size()) == bytes::text(value));
  CHECK(slow.ask(bytes::ping(5), 4) == bytes::u32(5));
}

TEST_CASE("store relay: a client that never reads is closed at its limit, its neighbours live on") {
  Host host;
  Log log;
  auto options = edge_of(host->port());
  options.limits.output_bytes = 24 * kMiB;
  options.log = log.sink();
  const auto edge = start_edge(std::move(options));
  Client good = greeted(*edge);
  REQUIRE(good.ask(bytes::set("big", std::string(8 * kMiB, 'v')) + bytes::ping(4), 4) == bytes::u32(4));
  Client greedy = greeted(*edge);
  std::string gets;
  for (int i = 0; i < 12; ++i) gets += bytes::get("big");
  REQUIRE(greedy.send(gets));
  REQUIRE(eventually(*edge, [](const auto& stats) { return stats.connections_refused == 1; }));
  CHECK(log.has("client has left more than 25165824 bytes of replies unread"));
  CHECK(good.ask(bytes::add("n", 1), 8) == bytes::i64(1));
  CHECK(eventually(*host, [](const auto& stats) { return stats.link_connections == 1; }));
}

TEST_CASE("store relay: hundreds of megabytes in large replies") {
  Host host;
  const auto edge = start_edge(edge_of(host->port()));
  Client client = greeted(*edge);
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<std::string> names;
  for (int i = 0; i < 15; ++i) {
    names.push_back("value" + std::to_string(i));
    pairs.emplace_back(names.back(), std::string(8 * kMiB, static_cast<char>('a' + i)));
  }
  const std::string set = bytes::multi_set(pairs);
  const std::string get = bytes::keys(StoreOp::multi_get, names);
  std::string expected;
  for (const auto& [name, value] : pairs) expected += bytes::text(value);
  REQUIRE(client.send(set));
  for (int i = 0; i < 3; ++i) REQUIRE(client.ask(get, expected.size()) == expected);
}

TEST_CASE("store relay: 1,000 clients of two edges wait for one key") {
  Host host;
  const std::unique_ptr<StoreHost> edges[] = {start_edge(edge_of(host->port())), start_edge(edge_of(host->port()))};
  std::vector<Client> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(edges[i % 2]->port());
    REQUIRE(clients.back().send(bytes::greeting() + bytes::wait({"go"})));
  }
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 1000; }));
  Client setter = greeted(*edges[0]);
  REQUIRE(setter.send(bytes::set("go", "")));
  for (auto& client : clients) REQUIRE(client.read(1) == kGo);
  clients.clear();
  CHECK(eventually(*host, [](const auto& stats) { return stats.link_connections == 1; }));
}

TEST_CASE("store relay: many threads at once lose and mix up nothing") {
  Host host;
  const std::unique_ptr<StoreHost> edges[] = {start_edge(edge_of(host->port())), start_edge(edge_of(host->port()))};
  constexpr int kThreads = 8;
  constexpr int kTurns = 100;
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Client client(edges[t % 2]->port());
      if (!client.greet()) wrong[t] = "greeting";
      for (int i = 0; i < kTurns && wrong[t].empty(); ++i) {
        const std::string key = "key" + std::to_string(t);
        const std::string value(static_cast<std::size_t>(i * 997 % 70000), static_cast<char>('a' + t));
        const std::string sent = bytes::set(key, value) + bytes::wait({key}) + bytes::get(key) + bytes::add("all", 1);
        const std::string got = client.ask(sent, 1 + 8 + value.size() + 8);
        if (got.substr(0, got.size() - 8) != kGo + bytes::text(value)) wrong[t] = "turn " + std::to_string(i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::string>(kThreads));
  CHECK(greeted(*edges[0]).ask(bytes::add("all", 0), 8) == bytes::i64(kThreads * kTurns));
}

TEST_CASE("store relay: what is no link is closed with a reason, members notice nothing") {
  Log log;
  StoreHost::Options options{.log = log.sink()};
  options.limits.greeting = std::chrono::milliseconds(500);
  options.limits.link_connections = 2;
  Host host(std::move(options));
  const auto edge = start_edge(edge_of(host->port()));
  Client member = greeted(*edge);

  Client silent(host->port());
  REQUIRE(silent.send(dtrain::kStoreLinkGreeting));
  Client garbage(host->port());
  REQUIRE(garbage.send("\xD8 and more"));
  // Its own greeting comes, then the end.
  CHECK(garbage.read(100) == dtrain::kStoreLinkGreeting);
  Client rude(host->port());
  REQUIRE(rude.send(std::string(dtrain::kStoreLinkGreeting) + link_frame(StoreLinkType::data, 1, "x")));
  CHECK(rude.read(1000) == std::string(dtrain::kStoreLinkGreeting) +
                               link_frame(StoreLinkType::refused, 0, "a store link begins with hello"));
  Client twice(host->port());
  REQUIRE(twice.send(link_hello(1) + link_hello(1).substr(dtrain::kStoreLinkGreeting.size())));
  CHECK(twice.read(1000).size() >= dtrain::kStoreLinkGreeting.size());
  CHECK(silent.read(1000) == dtrain::kStoreLinkGreeting);
  CHECK(log.has("closed a link of another node: no hello in time"));
  CHECK(log.has("closed a link of another node: it does not speak dtrain's store link"));
  CHECK(log.has("refused a link of another node: a store link begins with hello"));
  CHECK(log.has("closed a link of another node: unexpected frame 1"));

  // By hand: bytes of unknown connections are ignored, so is opening one twice; a connection too many is closed.
  Client hand(host->port());
  REQUIRE(hand.send(link_hello(1) + link_frame(StoreLinkType::data, 9, "x") + link_frame(StoreLinkType::closed, 9) +
                    link_frame(StoreLinkType::open, 1) + link_frame(StoreLinkType::open, 1) +
                    link_frame(StoreLinkType::open, 2) + link_frame(StoreLinkType::data, 1, bytes::ping(6))));
  const std::string answer = std::string(dtrain::kStoreLinkGreeting) + link_frame(StoreLinkType::welcome, 1) +
                             link_frame(StoreLinkType::closed, 2, "there are 2 connections of other nodes already") +
                             link_frame(StoreLinkType::data, 1, bytes::u32(6));
  CHECK(hand.read(answer.size()) == answer);
  CHECK(member.ask(bytes::ping(7), 4) == bytes::u32(7));
}

TEST_CASE("store relay: a value that many get at once goes over the link once") {
  Host host;
  const std::string value(4000, 'v'), other(4000, 'w');
  Client direct = greeted(*host);
  REQUIRE(direct.send(bytes::fields(StoreOp::set, {"k", value}) + bytes::fields(StoreOp::set, {"l", other})));
  REQUIRE(direct.ask(bytes::ping(1), 4) == bytes::u32(1));

  std::string requests = link_hello(1);
  for (const std::uint64_t number : {1, 2, 3, 4}) requests += link_frame(StoreLinkType::open, number);
  std::string expected = std::string(dtrain::kStoreLinkGreeting) + link_frame(StoreLinkType::welcome, 1);
  Client hand(host->port());
  REQUIRE(hand.send(requests));
  REQUIRE(hand.read(expected.size()) == expected);
  const auto get = [](std::uint64_t number, const char* key) {
    return link_frame(StoreLinkType::data, number, bytes::fields(StoreOp::get, {key}));
  };
  // Changed in between: it is what it is at each moment.
  REQUIRE(hand.send(get(1, "k") + get(2, "k") + link_frame(StoreLinkType::closed, 4) + get(3, "k") +
                    link_frame(StoreLinkType::data, 1, bytes::fields(StoreOp::set, {"k", other})) + get(2, "k") +
                    get(3, "k") + get(1, "l")));
  expected = link_frame(StoreLinkType::data, 1, bytes::text(value)) + link_frame(StoreLinkType::again, 2) +
             link_frame(StoreLinkType::again, 3) + link_frame(StoreLinkType::data, 2, bytes::text(other)) +
             link_frame(StoreLinkType::again, 3) + link_frame(StoreLinkType::again, 1);
  CHECK(hand.read(expected.size()) == expected);
  // Once it has been written, it is no longer here to be compared.
  REQUIRE(hand.send(get(2, "l")));
  expected = link_frame(StoreLinkType::data, 2, bytes::text(other));
  CHECK(hand.read(expected.size()) == expected);
}

TEST_CASE("store relay: workers of an edge that get one value at once have it whole") {
  Host host;
  const auto edge = start_edge(edge_of(host->port()));
  std::vector<Client> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(greeted(*edge));
  for (const std::size_t size :
       {std::size_t{10}, std::size_t{4000}, std::size_t{65528}, std::size_t{65529}, std::size_t{3} << 20}) {
    const std::string value(size, 'v');
    REQUIRE(clients[0].send(bytes::fields(StoreOp::set, {"k", value})));
    REQUIRE(clients[0].ask(bytes::ping(1), 4) == bytes::u32(1));
    for (Client& client : clients) REQUIRE(client.send(bytes::fields(StoreOp::get, {"k"})));
    for (Client& client : clients) REQUIRE(client.read(size + 8) == bytes::text(value));
  }
}

TEST_CASE("store relay: the threads of an idle store and its edge do not wake up") {
  StoreHost::Options options;
  options.limits.greeting = std::chrono::milliseconds(1500);
  Host host(options);
  auto remote = edge_of(host->port());
  remote.limits = options.limits;
  const auto edge = start_edge(std::move(remote));
  Client waiter = greeted(*edge);
  REQUIRE(waiter.send(bytes::wait({"never"})));
  REQUIRE(eventually(*host, [](const auto& stats) { return stats.connections_waiting == 1; }));
  CHECK(fall_asleep());
}
