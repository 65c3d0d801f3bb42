// The client with real etcd: one member and three, TLS and users, members killed in the middle of calls.
#include "rendezvous/etcd/etcd_client.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <thread>

#include "rendezvous/net/listen.h"
#include "test/support/catch.h"
#include "test/support/etcd_cluster.h"

using namespace dtrain;
using namespace std::chrono_literals;
using test::EtcdCluster;

namespace {

constexpr auto kLong = 60s;  // a machine under load; nothing here waits for it when all is well

struct Caller {
  explicit Caller(EtcdSettings settings) : client(io, std::move(settings)) {}

  Result<EtcdReply> call(EtcdRequest request, Duration limit = kLong) {
    std::optional<Result<EtcdReply>> result;
    client.call(std::move(request), limit, [&](Result<EtcdReply> answer) { result = std::move(answer); });
    until([&] { return result.has_value(); });
    return *result;
  }

  EtcdReply must(EtcdRequest request) {
    auto reply = call(std::move(request));
    INFO((reply ? "" : reply.error().message));
    REQUIRE(reply.ok());
    return *reply;
  }

  std::string error(EtcdRequest request, Duration limit = kLong) {
    auto reply = call(std::move(request), limit);
    return reply ? "" : reply.error().message;
  }

  template <class Condition>
  void until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + 2 * kLong;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io.restart();
      io.run_one_until(end);
    }
    REQUIRE(condition());
  }

  boost::asio::io_context io;
  EtcdClient client;
};

EtcdTxn create(const std::string& key, const std::string& value, std::int64_t lease = 0) {
  EtcdTxn txn;
  txn.compare_key = key;
  txn.puts = {{key, value, lease}};
  txn.reads = {key};
  txn.or_reads = {key};
  return txn;
}

bool has(const std::string& text, const std::string& part) {
  INFO("\"" << text << "\" should have \"" << part << "\"");
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("etcd: a key is made once, compared by its revision, and goes with its lease") {
  EtcdCluster etcd;
  Caller caller(etcd.settings());
  CHECK(caller.must(etcd_range("/k")).keys.empty());

  const auto lease = caller.must(etcd_grant(2));
  REQUIRE(lease.lease != 0);
  CHECK(lease.ttl == 2);
  const std::string value("a\0\xff/", 4);
  const auto made = caller.must(etcd_txn(create("/k", value, lease.lease)));
  REQUIRE(made.succeeded);
  REQUIRE(made.keys.size() == 1);
  CHECK(made.keys[0].key == "/k");
  CHECK(made.keys[0].value == value);
  CHECK(made.keys[0].lease == lease.lease);
  CHECK(made.keys[0].create_revision == made.revision);

  const auto second = caller.must(etcd_txn(create("/k", "other")));
  CHECK_FALSE(second.succeeded);
  REQUIRE(second.keys.size() == 1);
  CHECK(second.keys[0].value == value);

  // Written only by who knows the revision, which the next maker of the key has not.
  EtcdTxn write;
  write.compare_key = "/k";
  write.create_revision = made.revision;
  write.puts = {{"/record", "1", 0}};
  CHECK(caller.must(etcd_txn(write)).succeeded);
  write.create_revision += 1;
  CHECK_FALSE(caller.must(etcd_txn(write)).succeeded);

  CHECK(caller.must(etcd_keepalive(lease.lease)).ttl == 2);
  CHECK_FALSE(caller.client.own_address().empty());
  caller.must(etcd_revoke(lease.lease));
  CHECK(caller.must(etcd_keepalive(lease.lease)).ttl == 0);
  CHECK(caller.must(etcd_range("/k")).keys.empty());
  CHECK_FALSE(caller.must(etcd_txn(write)).succeeded);
}

TEST_CASE("etcd: who watches a key hears of its end by a lease that ran out") {
  EtcdCluster etcd;
  Caller caller(etcd.settings());
  const auto lease = caller.must(etcd_grant(1));
  caller.must(etcd_txn(create("/k", "v", lease.lease)));
  bool began = false, changed = false;
  std::string over;
  const EtcdClient::WatchCallbacks callbacks{[&] { began = true; }, [&] { changed = true; },
                                             [&](const Error& error) { over = error.message; }};
  caller.client.watch(etcd_watch("/k", 0), kLong, callbacks);
  caller.until([&] { return began; });
  caller.until([&] { return changed; });
  CHECK(caller.must(etcd_range("/k")).keys.empty());
  CHECK(over.empty());
  etcd.kill(0);
  caller.until([&] { return !over.empty(); });
  has(over, "etcd at 127.0.0.1:");
}

TEST_CASE("etcd: of three members one is killed, then another one, in the middle of calls") {
  EtcdCluster etcd(3);
  Caller caller(etcd.settings());
  caller.must(etcd_range("/k"));
  int asked = 0, made = 0, there = 0;
  std::string failed;
  std::function<void()> next = [&] {
    const std::string key = fmt::format("/k/{}", asked++);
    caller.client.call(etcd_txn(create(key, key)), kLong, [&, key](Result<EtcdReply> reply) {
      if (!reply) {
        failed = reply.error().message;
      } else {
        // Tried twice it may find its own key there, and nobody else's.
        made += reply->succeeded ? 1 : 0;
        there += reply->keys.size() == 1 && reply->keys[0].value == key ? 1 : 0;
      }
      if (asked < 120) next();
      if (asked == 40) etcd.kill(0);
      if (asked == 80) etcd.start(0), etcd.pause(1);
    });
  };
  for (int i = 0; i < 4; ++i) next();
  caller.until([&] { return there + (failed.empty() ? 0 : 1000) >= asked && asked >= 120; });
  CHECK(failed.empty());
  CHECK(there == asked);
  CHECK(made >= asked - 12);
}

TEST_CASE("etcd: without a majority, and without anybody, calls end in time with the reason") {
  EtcdCluster etcd(3);
  Caller caller(etcd.settings());
  caller.must(etcd_range("/k"));
  etcd.kill(1);
  etcd.kill(2);
  has(caller.error(etcd_txn(create("/k", "v")), 2s), "etcd");
  etcd.kill(0);
  has(caller.error(etcd_range("/k"), 300ms), "Connection refused");
  etcd.start(0);
  etcd.start(1);
  CHECK(caller.must(etcd_range("/k")).revision > 0);
}

TEST_CASE("etcd: users need their password, tokens are fetched again") {
  EtcdCluster etcd;
  auto settings = etcd.settings();
  {
    Caller root(settings);
    root.must({"/v3/auth/user/add", R"({"name":"root","password":"r"})"});
    root.must({"/v3/auth/role/add", R"({"name":"root"})"});
    root.must({"/v3/auth/user/grant", R"({"user":"root","role":"root"})"});
    root.must({"/v3/auth/user/add", R"({"name":"dtrain","password":"secret"})"});
    root.must({"/v3/auth/enable", "{}"});
    has(root.error(etcd_range("/k")), "it needs a user and a password");
  }
  settings.user = "root";
  settings.password = "r";
  Caller root(settings);
  root.must(etcd_txn(create("/k", "v")));
  // A member that begins anew knows no token.
  etcd.kill(0);
  etcd.start(0);
  CHECK(root.must(etcd_range("/k")).keys.size() == 1);

  settings.password = "wrong";
  has(Caller(settings).error(etcd_range("/k")), "authentication failed, invalid user ID or password");
  settings.user = "dtrain";
  settings.password = "secret";
  has(Caller(settings).error(etcd_range("/k")), "permission denied");
}

TEST_CASE("etcd: a member that cannot be reached is looked up again by its name") {
  EtcdCluster etcd;
  auto settings = etcd.settings();
  settings.members[0].name = "localhost";
  settings.members[0].addresses = {};  // not known when the client began
  CHECK(Caller(settings).must(etcd_range("/k")).keys.empty());
  settings.members[0].addresses = {"127.0.0.9"};  // where nobody is any more
  CHECK(Caller(settings).must(etcd_range("/k")).keys.empty());
  settings.members[0].name = "nowhere.invalid";
  settings.members[0].addresses = {};
  CHECK(Caller(settings).error(etcd_range("/k"), 1s) == "etcd: there is no host nowhere.invalid yet");
}

TEST_CASE("etcd: over TLS both sides show certificates") {
  EtcdCluster etcd(1, true);
  Caller caller(etcd.settings());
  CHECK(caller.must(etcd_txn(create("/k", "v"))).succeeded);
  CHECK(caller.must(etcd_range("/k")).keys.size() == 1);

  auto settings = etcd.settings();
  settings.members[0].name = "localhost";
  CHECK(Caller(settings).must(etcd_range("/k")).keys.size() == 1);
  settings.members[0].name = "other.example";
  has(Caller(settings).error(etcd_range("/k"), 1s), "the peer's certificate is not valid: hostname mismatch");
  settings.members[0].name = "127.0.0.2";
  has(Caller(settings).error(etcd_range("/k"), 1s), "the peer's certificate is not valid: IP address mismatch");

  settings = etcd.settings();
  settings.certificates = *TlsCertificates::load({etcd.file("ca.pem"), "", ""});
  has(Caller(settings).error(etcd_range("/k"), 1s), "the peer expects a certificate");
  etcd.make_authority("stranger");
  etcd.certify("foreign", "stranger");
  settings.certificates =
      *TlsCertificates::load({etcd.file("ca.pem"), etcd.file("foreign.pem"), etcd.file("foreign.key")});
  has(Caller(settings).error(etcd_range("/k"), 1s), "the peer expects a certificate");
  settings.certificates = *TlsCertificates::load({etcd.file("stranger.pem"), "", ""});
  has(Caller(settings).error(etcd_range("/k"), 1s), "the peer's certificate is not valid: unable to get local issuer");

  settings.certificates.reset();
  has(Caller(settings).error(etcd_range("/k"), 1s), "it has closed the connection; does it need https?");
}

TEST_CASE("etcd: https to a port that has none, and files that are none") {
  EtcdCluster etcd;
  EtcdCluster other(1, true);
  Caller(etcd.settings()).must(etcd_range("/k"));
  auto settings = etcd.settings();
  settings.certificates = other.settings().certificates;
  has(Caller(settings).error(etcd_range("/k"), 1s), "it has closed the connection; does it take only http?");

  const auto error = [](const TlsCertificates::Files& files) {
    auto loaded = TlsCertificates::load(files);
    return loaded ? std::string() : loaded.error().message;
  };
  has(error({"/nowhere.pem", "", ""}), "the CA file /nowhere.pem: ");
  has(error({other.file("ca.pem"), other.file("ca.key"), ""}), "the certificate ");
  has(error({other.file("ca.pem"), other.file("client.pem"), other.file("member.key")}), "the private key ");
}
