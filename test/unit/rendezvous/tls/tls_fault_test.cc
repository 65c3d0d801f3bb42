// TLS ends that do not agree, and bytes that nobody meant: each fault has one clear line, nothing of the application is
// given out before the peer is known, and no changed, cut or repeated byte passes.
#include <vector>

#include "test/unit/rendezvous/tls_pair.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string fingerprint(const JobSecret& secret) {
  auto text = secret.fingerprint();
  REQUIRE(text.ok());
  return *text;
}

void check_refused(Pair& pair, TlsFault fault, const std::string& server_says, const std::string& client_says) {
  REQUIRE(pair.client.session.send("secret of the client").ok());
  pair.talk();
  INFO("server: " << pair.server.error << "\nclient: " << pair.client.error);
  CHECK_FALSE(pair.server.session.established());
  CHECK_FALSE(pair.client.session.established());
  CHECK(pair.server.session.fault() == fault);
  CHECK(pair.client.session.fault() == fault);
  CHECK(contains(pair.server.error, server_says));
  CHECK(contains(pair.client.error, client_says));
  CHECK(pair.server.plaintext.empty());
  CHECK(pair.client.plaintext.empty());
}

// The flights of one whole conversation, in order; even ones are the client's.
struct Recorded {
  std::vector<std::string> flights;
};

Recorded conversation(Pair& pair) {
  Recorded recorded;
  REQUIRE(pair.client.session.send("question").ok());
  REQUIRE(pair.server.session.send("answer").ok());
  for (int i = 0; i < 4; ++i) {
    recorded.flights.push_back((i % 2 == 0 ? pair.client : pair.server).session.take_output());
    (i % 2 == 0 ? pair.server : pair.client).hear(recorded.flights.back());
  }
  REQUIRE(pair.server.plaintext == "question");
  REQUIRE(pair.client.plaintext == "answer");
  return recorded;
}

}  // namespace

TEST_CASE("another token is recognised as such on both sides") {
  const JobSecret ours = new_secret(), theirs = new_secret();
  Pair pair{End(TlsSession::client(theirs, kAgentLink)), End(TlsSession::server(ours, "job"))};
  check_refused(
      pair, TlsFault::token,
      "the token differs: the peer's has the fingerprint " + fingerprint(theirs) + ", this node's " + fingerprint(ours),
      "the token differs: the peer does not have the one with the fingerprint " + fingerprint(theirs));
}

TEST_CASE("another job with the same token is refused") {
  const JobSecret secret = new_secret();
  Pair pair{End(TlsSession::client(secret, {LinkRole::agent, 0, "mine"})), End(TlsSession::server(secret, "yours"))};
  check_refused(pair, TlsFault::job, "another job", "--rdzv-id differs");
}

TEST_CASE("a server takes the roles and epochs that it wants, and says which it does not") {
  const JobSecret secret = new_secret();
  const auto only = [](LinkRole role, std::uint64_t epoch) {
    return [=](const LinkName& link) {
      return link.role == role && link.epoch == epoch ? std::string() : "not of this round";
    };
  };
  for (const LinkName& link : {LinkName{LinkRole::agent, 0, "job"}, LinkName{LinkRole::store, 6, "job"},
                               LinkName{LinkRole::store, 8, "job"}}) {
    Pair pair{End(TlsSession::client(secret, link)), End(TlsSession::server(secret, "job", only(LinkRole::store, 7)))};
    check_refused(pair, TlsFault::refused, "not of this round", "the peer refuses the");
  }
  Pair pair{End(TlsSession::client(secret, {LinkRole::store, 7, "job"})),
            End(TlsSession::server(secret, "job", only(LinkRole::store, 7)))};
  pair.talk();
  CHECK(pair.established());
}

TEST_CASE("the role and the epoch of a link cannot be claimed with the key of another") {
  // What is sent in clear is changed on the way: the key that the server then derives is another one.
  const JobSecret secret = new_secret();
  for (const auto& [from, to] : {std::pair("/store/3/", "/agent/3/"), std::pair("/store/3/", "/store/4/")}) {
    Pair pair{End(TlsSession::client(secret, {LinkRole::store, 3, "job"})), End(TlsSession::server(secret, "job"))};
    std::string hello = pair.client.session.take_output();
    const std::size_t at = hello.find(from);
    REQUIRE(at != std::string::npos);
    hello.replace(at, std::string_view(from).size(), to);
    pair.server.hear(hello);
    CHECK(pair.server.session.fault() == TlsFault::token);
    CHECK(contains(pair.server.error, "the token differs"));
    pair.client.hear(pair.server.session.take_output());
    CHECK(pair.client.session.fault() == TlsFault::token);
  }
}

TEST_CASE("a peer that speaks no TLS is told from a wrong token") {
  for (const std::string& text :
       {std::string("\xD7"
                    "dround\x01"),
        std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0'), std::string("SSH-2.0-x\r\n")}) {
    Pair pair = pair_of(new_secret());
    pair.server.hear(text);
    pair.client.hear(text);
    for (End* end : {&pair.server, &pair.client}) {
      CHECK(end->session.fault() == TlsFault::not_tls);
      CHECK(contains(end->error, "--insecure"));
      CHECK(end->plaintext.empty());
    }
  }
}

TEST_CASE("an error is final, and the same each time") {
  Pair pair = pair_of(new_secret());
  pair.server.hear("hello");
  const std::string first = pair.server.error;
  std::string plaintext;
  auto again = pair.server.session.receive(pair.client.session.take_output(), plaintext);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().message == first);
  CHECK_FALSE(pair.server.session.send("text").ok());
  CHECK_FALSE(pair.server.session.established());
  pair.server.session.close();
}

TEST_CASE("before it is known a peer may send only so much") {
  // One handshake message that is announced as 128 KB and comes in records of 1 KB.
  Pair pair = pair_of(new_secret());
  std::string record = {0x16, 3, 1, 4, 0};
  std::string first = record + std::string({1, 2, 0, 0}) + std::string(1020, 'x');
  std::size_t sent = 0;
  for (pair.server.hear(first); pair.server.error.empty() && sent < 1 << 20; sent += 1029)
    pair.server.hear(record + std::string(1024, 'x'));
  CHECK(pair.server.session.fault() == TlsFault::protocol);
  CHECK(sent <= kTlsHandshakeBytes + 2 * 1029);
  INFO(pair.server.error);
  CHECK(pair.server.plaintext.empty());

  // Warnings for ever.
  Pair other = pair_of(new_secret());
  const std::string warning = {0x15, 3, 3, 0, 2, 1, 90};
  for (sent = 0; other.server.error.empty() && sent < 1 << 20; sent += warning.size()) other.server.hear(warning);
  CHECK(sent <= kTlsHandshakeBytes + warning.size());
}

TEST_CASE("an identity that is too long, or none of dtrain's, is refused") {
  const JobSecret secret = new_secret();
  for (const std::string& changed : {std::string("dtrain9/"), std::string("DTRAIN1/")}) {
    Pair pair{End(TlsSession::client(secret, kAgentLink)), End(TlsSession::server(secret, "job"))};
    std::string hello = pair.client.session.take_output();
    hello.replace(hello.find("dtrain1/"), changed.size(), changed);
    pair.server.hear(hello);
    CHECK(pair.server.session.fault() == TlsFault::protocol);
    CHECK(contains(pair.server.error, "not an agent of this version of dtrain"));
  }
  // A job's long name does not make the identity longer than TLS libraries take.
  Pair pair = pair_of(secret, {LinkRole::agent, 0, std::string(100000, 'j')});
  const std::string hello = pair.client.session.take_output();
  CHECK(hello.size() < 700);
  pair.server.hear(hello);
  CHECK(pair.server.error.empty());
}

TEST_CASE("every byte of the handshake and of the first records may be changed, and is noticed") {
  const JobSecret secret = new_secret();
  Pair whole = pair_of(secret);
  const Recorded example = conversation(whole);
  std::size_t tried = 0;
  for (std::size_t flight = 0; flight < example.flights.size(); ++flight) {
    for (std::size_t at = 0; at < example.flights[flight].size(); at += 3) {
      Pair pair = pair_of(secret);
      REQUIRE(pair.client.session.send("question").ok());
      REQUIRE(pair.server.session.send("answer").ok());
      for (std::size_t i = 0; i <= flight; ++i) {
        End& from = i % 2 == 0 ? pair.client : pair.server;
        End& to = i % 2 == 0 ? pair.server : pair.client;
        std::string bytes = from.session.take_output();
        if (i == flight) bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
        to.hear(bytes);
      }
      pair.talk();
      ++tried;
      const bool heard = pair.server.plaintext == "question" && pair.client.plaintext == "answer";
      INFO("flight " << flight << ", byte " << at);
      CHECK((!heard || is_version(example.flights[flight], at)));
      CHECK((pair.server.plaintext.empty() || pair.server.plaintext == "question"));
      CHECK((pair.client.plaintext.empty() || pair.client.plaintext == "answer"));
    }
  }
  CHECK(tried > 200);
}

TEST_CASE("a changed record after the handshake gives nothing, and ends the link") {
  Pair pair = pair_of(new_secret());
  pair.talk();
  REQUIRE(pair.client.session.send("first").ok());
  const std::string first = pair.client.session.take_output();
  REQUIRE(pair.client.session.send("second").ok());
  std::string second = pair.client.session.take_output();
  second[10] = static_cast<char>(second[10] ^ 1);
  pair.server.hear(first + second);
  CHECK(pair.server.plaintext == "first");
  CHECK(pair.server.session.fault() == TlsFault::protocol);
  CHECK(contains(pair.server.error, "disturbed"));
  pair.client.hear(pair.server.session.take_output());
  CHECK(contains(pair.client.error, "ended the encrypted connection"));
}

TEST_CASE("records that are repeated, dropped or in another order are noticed") {
  for (const std::string& order : {std::string("aab"), std::string("ba"), std::string("b")}) {
    Pair pair = pair_of(new_secret());
    pair.talk();
    REQUIRE(pair.client.session.send("first").ok());
    const std::string a = pair.client.session.take_output();
    REQUIRE(pair.client.session.send("second").ok());
    const std::string b = pair.client.session.take_output();
    for (const char which : order) pair.server.hear(which == 'a' ? a : b);
    CHECK_FALSE(pair.server.error.empty());
    CHECK(pair.server.plaintext == (order[0] == 'a' ? "first" : ""));
  }
}

TEST_CASE("an earlier conversation, played again, gets nowhere") {
  const JobSecret secret = new_secret();
  Pair earlier = pair_of(secret);
  const Recorded recorded = conversation(earlier);

  End server(TlsSession::server(secret, "job"));
  for (std::size_t i = 0; i < recorded.flights.size(); i += 2) server.hear(recorded.flights[i]);
  CHECK_FALSE(server.session.established());
  CHECK(server.plaintext.empty());
  CHECK_FALSE(server.error.empty());

  End client(TlsSession::client(secret, kAgentLink));
  for (std::size_t i = 1; i < recorded.flights.size(); i += 2) client.hear(recorded.flights[i]);
  CHECK_FALSE(client.session.established());
  CHECK(client.plaintext.empty());
  CHECK_FALSE(client.error.empty());
}

TEST_CASE("a client that hears itself does not take itself for a server") {
  End client(TlsSession::client(new_secret(), kAgentLink));
  client.hear(client.session.take_output());
  CHECK_FALSE(client.session.established());
  CHECK_FALSE(client.error.empty());
}

TEST_CASE("a conversation that is cut anywhere is not established, and says nothing that was not said") {
  const JobSecret secret = new_secret();
  Pair whole = pair_of(secret);
  const Recorded example = conversation(whole);
  for (std::size_t size = 0; size < example.flights[0].size(); size += 5) {
    Pair pair = pair_of(secret);
    pair.server.hear(pair.client.session.take_output().substr(0, size));
    CHECK(pair.server.session.take_output().empty());
    CHECK(pair.server.error.empty());
    CHECK_FALSE(pair.server.session.established());
    CHECK_FALSE(pair.server.session.peer_closed());
  }
}
