// What is at an address of etcd's may be anything: a proxy, another program, somebody on the way. Its answers go
// through HttpConnection and EtcdClient, and what is told of them is a whole line of ours. `make asan` runs this too.
#include "rendezvous/http/http_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <vector>

#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/net/listen.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 60s;  // a machine under load; nothing here waits for it when all is well

enum class Then { closes, stays_silent };

// Answers every connection with the same bytes, as soon as something has been asked; then closes it, or waits for the
// other side to do so.
class Stranger {
 public:
  explicit Stranger(std::string answer, Then then = Then::closes)
      : answer_(std::move(answer)),
        then_(then),
        listener_(std::move(listen_at("127.0.0.1", 0).value())),
        port_(port_of_socket(listener_.get()).value()),
        thread_([this] { serve(); }) {}

  ~Stranger() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

 private:
  void serve() const {
    ::fcntl(listener_.get(), F_SETFL, 0);
    for (;;) {
      const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      std::vector<char> asked(4096);
      if (::recv(peer.get(), asked.data(), asked.size(), 0) <= 0) continue;
      std::string_view left = answer_;
      while (!left.empty()) {
        const ssize_t sent = ::send(peer.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        left.remove_prefix(std::size_t(sent));
      }
      if (then_ == Then::closes) ::shutdown(peer.get(), SHUT_WR);
      while (::recv(peer.get(), asked.data(), asked.size(), 0) > 0) {
      }
    }
  }

  const std::string answer_;
  const Then then_;
  const UniqueFd listener_;
  const std::uint16_t port_;
  std::thread thread_;
};

// Why a request there fails.
std::string failure_at(std::uint16_t port) {
  boost::asio::io_context io;
  auto socket = begin_connect("127.0.0.1", port);
  REQUIRE(socket.ok());
  const auto connection = std::make_shared<HttpConnection>(io, LinkSocket{std::move(*socket)});
  std::optional<std::string> why;
  bool done = false;
  connection->ask(
      "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", kEtcdReplyBytes,
      {[&](HttpResponse&, bool last) { done = done || last; }, [&](const std::string& text) { why = text; }});
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!why && !done && io.run_one_until(end) > 0) {
  }
  CHECK_FALSE(done);
  REQUIRE(why.has_value());
  CHECK_FALSE(connection->open());
  return *why;
}

// What the client of etcd tells of it.
std::string error_at(std::uint16_t port) {
  boost::asio::io_context io;
  EtcdSettings settings;
  settings.members = {{"127.0.0.1", {"127.0.0.1"}, port}};
  settings.one_try = kLong;
  EtcdClient client(io, settings);
  std::optional<Error> error;
  client.call(etcd_range("/k"), 500ms, [&](const Result<EtcdReply>& reply) {
    REQUIRE_FALSE(reply.ok());
    error = reply.error();
  });
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!error && io.run_one_until(end) > 0) {
  }
  REQUIRE(error.has_value());
  return error->message;
}

struct Nonsense {
  const char* name;
  std::string answer;
  const char* told;
};

std::vector<Nonsense> nonsense() {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  std::string fields;
  while (fields.size() < 100 * 1024) fields += "X-Padding: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
  return {
      {"fields that are too long", ok + fields + "\r\n", "it does not speak HTTP (header limit exceeded)"},
      {"a line that does not end", ok + "X: " + std::string(100 * 1024, 'a'),
       "it does not speak HTTP (header limit exceeded)"},
      {"a body that is too long",
       ok + fmt::format("Content-Length: {}\r\n\r\n", 2 * kEtcdReplyBytes) + std::string(2 * kEtcdReplyBytes, 'b'),
       "its answer is longer than 1048576 bytes"},
      {"chunks that are too long",
       ok + fmt::format("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", 2 * kEtcdReplyBytes) +
           std::string(2 * kEtcdReplyBytes, 'c'),
       "its answer is longer than 1048576 bytes"},
      {"a bad chunk", ok + "Transfer-Encoding: chunked\r\n\r\n\x1b[31mzz\r\nabc", "it does not speak HTTP (bad chunk)"},
      {"ESC in the reason", "HTTP/1.1 200 \x1b[31mOK\r\n\r\n", "it does not speak HTTP (bad reason)"},
      {"ESC in a field", ok + "X\x1b[31m: y\r\n\r\n", "it does not speak HTTP (bad field)"},
      {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", "it does not speak HTTP (bad version)"},
      {"the end", "", "it has closed the connection"},
  };
}

}  // namespace

TEST_CASE("http: a bad answer is told in words of ours, whatever it is") {
  for (const Nonsense& each : nonsense()) {
    INFO(each.name);
    const Stranger stranger(each.answer);
    CHECK(failure_at(stranger.port()) == each.told);
  }
}

TEST_CASE("etcd: what is no etcd is told in one line that steers no terminal") {
  auto all = nonsense();
  all.push_back({"an error page",
                 "HTTP/1.1 502 Bad\r\nContent-Length: 12\r\n\r\n\x1b[31mbad\x9b"
                 "11m\n",
                 "it does not answer as etcd 3.4 or later does (HTTP 502: \\x1b[31mbad"});
  const std::string json = R"({"code":2,"message":"one\ntwo \u001b[31mred"})";
  all.push_back({"an error of etcd's",
                 fmt::format("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\n{}", json.size(), json),
                 "one\\x0atwo \\x1b[31mred"});
  for (const Nonsense& each : all) {
    INFO(each.name);
    const Stranger stranger(each.answer);
    const std::string told = error_at(stranger.port());
    INFO(told);
    CHECK(told.starts_with(fmt::format("etcd at 127.0.0.1:{}: {}", stranger.port(), each.told)));
    for (const char c : told) CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
  }
}

TEST_CASE("etcd: what one member says of a watch is no part of what the next one says") {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const Stranger stuck(head + "a\r\n{\"result\":\r\n", Then::stays_silent);
  const Stranger healthy(head + "1c\r\n{\"result\":{\"created\":true}}\n\r\n", Then::stays_silent);
  boost::asio::io_context io;
  EtcdSettings settings;
  settings.members = {{"127.0.0.1", {"127.0.0.1"}, stuck.port()}, {"127.0.0.1", {"127.0.0.1"}, healthy.port()}};
  settings.one_try = 300ms;
  EtcdClient client(io, settings);
  bool began = false;
  std::string over;
  client.watch(etcd_watch("/k", 0), kLong,
               {[&] { began = true; }, [] {}, [&](const Error& error) { over = error.message; }});
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!began && over.empty() && io.run_one_until(end) > 0) {
  }
  CHECK(over.empty());
  CHECK(began);
}
