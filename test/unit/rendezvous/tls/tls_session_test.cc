// Two TLS ends that agree: whatever is said arrives, however it is cut; what is kept is bounded.
#include "rendezvous/tls/tls_session.h"

#include <vector>

#include "test/unit/rendezvous/tls_pair.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::string noise(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((seed = seed * 1664525U + 1013904223U) >> 24);
  return bytes;
}

void say(End& from, const std::string& text) { REQUIRE(from.session.send(text).ok()); }

}  // namespace

TEST_CASE("client and server of one job meet, and both say so") {
  const JobSecret secret = new_secret();
  for (const LinkName& link :
       {kAgentLink, LinkName{LinkRole::store, 17, "job"}, LinkName{LinkRole::store, ~0ULL, std::string(5000, 'j')},
        LinkName{LinkRole::agent, 0, ""}}) {
    Pair pair = pair_of(secret, link);
    CHECK(pair.client.session.link() == link);
    CHECK_FALSE(pair.established());
    pair.talk();
    INFO(pair.client.error << pair.server.error);
    REQUIRE(pair.established());
    CHECK(pair.server.session.link() == link);
    CHECK(pair.client.session.fault() == TlsFault::none);
    CHECK(pair.client.plaintext.empty());
    CHECK(pair.server.plaintext.empty());
  }
}

TEST_CASE("what is said before the handshake is done comes after it, within a bound") {
  Pair pair = pair_of(new_secret());
  say(pair.client, "from the ");
  say(pair.client, "client");
  say(pair.server, "from the server");
  pair.talk();
  CHECK(pair.server.plaintext == "from the client");
  CHECK(pair.client.plaintext == "from the server");

  Pair full = pair_of(new_secret());
  say(full.client, std::string(kTlsEarlyBytes, 'x'));
  CHECK_FALSE(full.client.session.send("y").ok());
  full.talk();
  CHECK(full.server.plaintext.size() == kTlsEarlyBytes);
  say(full.client, "y");
}

TEST_CASE("however the bytes are cut, the same arrives") {
  const std::string there = noise(70000, 1), back = noise(300, 2);
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}, std::size_t{100000}}) {
    Pair pair = pair_of(new_secret());
    pair.talk(piece);
    REQUIRE(pair.established());
    say(pair.client, there);
    say(pair.server, back);
    pair.talk(piece);
    CHECK(pair.server.plaintext == there);
    CHECK(pair.client.plaintext == back);
  }
}

TEST_CASE("the last words of the handshake and the first of the application may come in one piece") {
  Pair pair = pair_of(new_secret());
  pair.server.hear(pair.client.session.take_output());
  pair.client.hear(pair.server.session.take_output());
  REQUIRE(pair.client.session.established());
  const std::string text = noise(3 * kTlsHandshakeBytes, 3);
  say(pair.client, text);
  pair.server.hear(pair.client.session.take_output());
  CHECK(pair.server.error.empty());
  CHECK(pair.server.plaintext == text);
}

TEST_CASE("much arrives, both ways at once, and nothing of it can be seen on the way") {
  Pair pair = pair_of(new_secret());
  pair.talk();
  const std::string there = noise(8 << 20, 4), back = noise(5 << 20, 5);
  say(pair.client, there);
  say(pair.server, back);
  const std::string wire = pair.client.session.take_output();
  CHECK(wire.size() < there.size() + there.size() / 500);
  CHECK(wire.find(there.substr(0, 64)) == std::string::npos);
  pair.server.hear(wire);
  pair.talk();
  CHECK((pair.server.plaintext == there));
  CHECK((pair.client.plaintext == back));
}

TEST_CASE("keys are renewed before they wear out, and nothing is lost by it") {
  Pair pair = pair_of(new_secret());
  pair.client.session.renew_key_after(3);
  pair.talk();
  std::string sent;
  for (int i = 0; i < 40; ++i) {
    const std::string text = noise(1000, static_cast<unsigned>(i));
    sent += text;
    say(pair.client, text);
    say(pair.server, text);
  }
  // 40 records in groups of three, each but the first with a key update of 27 bytes before it.
  const std::string wire = pair.client.session.take_output();
  CHECK(wire.size() == 40 * (1000 + 22) + 13 * 27);
  pair.server.hear(wire);
  pair.talk();
  CHECK(pair.server.plaintext == sent);
  CHECK(pair.client.plaintext == sent);
}

TEST_CASE("an end that is told differs from one that is cut") {
  Pair pair = pair_of(new_secret());
  pair.talk();
  say(pair.client, "last words");
  pair.client.session.close();
  pair.client.session.close();
  CHECK_FALSE(pair.client.session.send("more").ok());
  pair.server.hear(pair.client.session.take_output() + "and more");
  CHECK(pair.server.error.empty());
  CHECK(pair.server.plaintext == "last words");
  CHECK(pair.server.session.peer_closed());
  CHECK_FALSE(pair.client.session.peer_closed());
  say(pair.server, "an answer");
  pair.talk();
  CHECK(pair.client.plaintext == "an answer");

  Pair young = pair_of(new_secret());
  say(young.client, "never sent");
  young.client.session.close();
  young.talk();
  CHECK(young.established());
  CHECK(young.client.error.empty());
  CHECK(young.server.plaintext.empty());
}

TEST_CASE("a session can be moved while it is used") {
  Pair pair = pair_of(new_secret());
  std::vector<TlsSession> kept;
  pair.server.hear(pair.client.session.take_output());
  kept.push_back(std::move(pair.client.session));
  std::string plaintext;
  REQUIRE(kept[0].receive(pair.server.session.take_output(), plaintext).ok());
  CHECK(kept[0].established());
  REQUIRE(kept[0].send("moved").ok());
  pair.server.hear(kept[0].take_output());
  CHECK(pair.server.plaintext == "moved");
}
