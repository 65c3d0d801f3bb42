// Links with certificates: who is let in and who is not, in both directions, and files that make no sense.
#include "rendezvous/credentials/site_certificates.h"

#include <sys/stat.h>

#include <algorithm>

#include "rendezvous/credentials/tls_certificates.h"
#include "rendezvous/crypto/openssl.h"
#include "test/support/certificates.h"
#include "test/unit/rendezvous/tls_pair.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// An authority, and what it and others have signed.
struct Site {
  TempFolder folder;

  Site() {
    make_authority(folder, "ca");
    certify(folder, "node");
  }

  std::string file(const std::string& name) const { return folder / name; }
  SiteCertificates::Files files(const std::string& name, const std::string& ca = "ca") const {
    return {file(ca + ".pem"), file(name + ".pem"), file(name + ".key")};
  }
  SiteCertificates load(const std::string& name = "node", const std::string& ca = "ca") const {
    auto loaded = SiteCertificates::load(files(name, ca));
    INFO((loaded ? "" : loaded.error().message));
    REQUIRE(loaded.ok());
    return *loaded;
  }
  std::string error(const SiteCertificates::Files& files) const {
    auto loaded = SiteCertificates::load(files);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().kind == ErrorKind::usage);
    return loaded.error().message;
  }
  // An end that believes in `ca`, and shows what no honest one would.
  SiteCertificates showing(const std::string& name) const {
    SiteCertificates certificates = load();
    const OpenSsl& ssl = **openssl();
    REQUIRE(ssl.SSL_CTX_use_certificate_chain_file(certificates.context(), file(name + ".pem").c_str()) == 1);
    REQUIRE(ssl.SSL_CTX_use_PrivateKey_file(certificates.context(), file(name + ".key").c_str(), SSL_FILETYPE_PEM) ==
            1);
    return certificates;
  }
};

Pair pair_of(const LinkCredential& client, const LinkCredential& server, const LinkName& link = kAgentLink,
             const std::string& job = "job", TlsSession::Refuse refuse = {}) {
  return {End(TlsSession::client(client, link)), End(TlsSession::server(server, job, std::move(refuse)))};
}

// Nothing was given out, and each side has one line for it.
void check_refused(Pair& pair, TlsFault server, const std::string& server_says, TlsFault client,
                   const std::string& client_says) {
  REQUIRE(pair.client.session.send("secret of the client").ok());
  REQUIRE(pair.server.session.send("secret of the server").ok());
  pair.talk();
  INFO("server: " << pair.server.error << "\nclient: " << pair.client.error);
  CHECK_FALSE(pair.server.session.established());
  CHECK(pair.server.session.fault() == server);
  CHECK(pair.client.session.fault() == client);
  CHECK(contains(pair.server.error, server_says));
  CHECK(contains(pair.client.error, client_says));
  CHECK(pair.server.plaintext.empty());
  CHECK(pair.client.plaintext.empty());
}

}  // namespace

TEST_CASE("agents with certificates of one authority meet, and know which link it is") {
  const Site site;
  const SiteCertificates ours = site.load();
  for (const LinkName& link :
       {kAgentLink, LinkName{LinkRole::store, 17, "job"}, LinkName{LinkRole::store, ~0ULL, std::string(5000, 'j')},
        LinkName{LinkRole::agent, 0, ""}, LinkName{LinkRole::agent, 0, std::string(kJobBytes, 'j')}}) {
    Pair pair = pair_of(ours, site.load(), link, link.job);
    REQUIRE(pair.client.session.send("question").ok());
    REQUIRE(pair.server.session.send("answer").ok());
    pair.talk(100);
    INFO(pair.client.error << pair.server.error);
    REQUIRE(pair.established());
    CHECK(pair.server.session.link() == link);
    CHECK(pair.client.session.link() == link);
    CHECK(pair.server.plaintext == "question");
    CHECK(pair.client.plaintext == "answer");
  }
  Pair any{End(TlsSession::client(ours, {LinkRole::agent, 0, "theirs"})), End(TlsSession::server_of_any_job(ours))};
  any.talk();
  REQUIRE(any.established());
  CHECK(any.server.session.link().job == "theirs");
}

TEST_CASE("certificates of another authority, old ones and homemade ones get nowhere, on either side") {
  const Site site;
  make_authority(site.folder, "foreign");
  certify(site.folder, "stranger", "foreign");
  certify(site.folder, "old", "ca", "", -1);
  make_authority(site.folder, "homemade");
  certify(site.folder, "webserver", "ca", "extendedKeyUsage=serverAuth");
  certify(site.folder, "person", "ca", "extendedKeyUsage=clientAuth");
  const SiteCertificates ours = site.load();
  struct Row {
    const char *name, *why, *alert;
  };
  const Row as_client[] = {{"stranger", "unable to get local issuer certificate", "it is from another authority"},
                           {"old", "certificate has expired", "it has expired"},
                           {"homemade", "self-signed certificate", "it is from another authority"},
                           {"webserver", "unsuitable certificate purpose", "TLS alert 43"}};
  for (const Row& row : as_client) {
    INFO(row.name);
    Pair pair = pair_of(site.showing(row.name), ours);
    check_refused(pair, TlsFault::token, std::string("the peer's certificate is not valid: ") + row.why,
                  TlsFault::token, std::string("the peer does not take this node's certificate: ") + row.alert);
  }
  const Row as_server[] = {
      as_client[0], as_client[1], as_client[2], {"person", "unsuitable certificate purpose", "TLS alert 43"}};
  for (const Row& row : as_server) {
    INFO(row.name);
    Pair pair = pair_of(ours, site.showing(row.name));
    check_refused(pair, TlsFault::token, std::string("the peer does not take this node's certificate: ") + row.alert,
                  TlsFault::token, std::string("the peer's certificate is not valid: ") + row.why);
    CHECK_FALSE(pair.client.session.established());
  }
}

TEST_CASE("a client without a certificate, and one that names no link, is refused") {
  const Site site;
  const auto as_program = [&](const TlsCertificates::Files& files) {
    auto certificates = TlsCertificates::load(files);
    REQUIRE(certificates.ok());
    return Pair{End(TlsSession::client(*certificates, "localhost")), End(TlsSession::server(site.load(), "job"))};
  };
  Pair bare = as_program({site.file("ca.pem"), "", ""});
  check_refused(bare, TlsFault::token, "the peer shows no certificate", TlsFault::refused, "expects a certificate");
  Pair nameless = as_program({site.file("ca.pem"), site.file("node.pem"), site.file("node.key")});
  REQUIRE(nameless.client.session.send("text").ok());
  nameless.talk();
  CHECK_FALSE(nameless.server.session.established());
  CHECK(nameless.server.plaintext.empty());
  CHECK(contains(nameless.server.error, "not an agent of this version of dtrain"));
}

TEST_CASE("with certificates too, a link is for one job, one role and one epoch") {
  const Site site;
  const SiteCertificates ours = site.load();
  Pair job = pair_of(ours, ours, {LinkRole::agent, 0, "mine"}, "yours");
  check_refused(job, TlsFault::job, "another job", TlsFault::job, "--rdzv-id differs");
  CHECK_FALSE(job.client.session.established());
  const TlsSession::Refuse only = [](const LinkName& link) {
    return link == LinkName{LinkRole::store, 7, "job"} ? std::string() : "not of this round";
  };
  for (const LinkName& link : {LinkName{LinkRole::agent, 0, "job"}, LinkName{LinkRole::store, 6, "job"},
                               LinkName{LinkRole::agent, 7, "job"}, LinkName{LinkRole::store, 8, "job"}}) {
    Pair pair = pair_of(ours, ours, link, "job", only);
    check_refused(pair, TlsFault::refused, "not of this round", TlsFault::refused, "the peer refuses the");
  }
  Pair good = pair_of(ours, ours, {LinkRole::store, 7, "job"}, "job", only);
  good.talk();
  CHECK(good.established());

  // The name of a link goes in clear, but nobody on the way can put another in its place.
  for (const auto& [from, to] : {std::pair("/store/3/", "/agent/3/"), std::pair("/store/3/", "/store/4/")}) {
    Pair pair = pair_of(ours, ours, {LinkRole::store, 3, "job"});
    REQUIRE(pair.client.session.send("text").ok());
    std::string hello = pair.client.session.take_output();
    hello.replace(hello.find(from), std::string_view(from).size(), to);
    pair.server.hear(hello);
    pair.talk();
    CHECK_FALSE(pair.server.session.established());
    CHECK_FALSE(pair.client.session.established());
    CHECK(pair.server.plaintext.empty());
  }
}

TEST_CASE("a token and certificates do not go together, and both sides say so") {
  const Site site;
  const LinkCredential secret = new_secret(), certificates = site.load();
  Pair to_site = pair_of(secret, certificates);
  check_refused(to_site, TlsFault::token, "the peer has a token, and this node has certificates", TlsFault::token,
                "the peer expects a certificate (--tls-ca), and this node has a token");
  Pair to_token = pair_of(certificates, secret);
  check_refused(to_token, TlsFault::token, "the peer has certificates (--tls-ca), and this node has a token",
                TlsFault::token, "the peer expects a token, and this node has a certificate");
}

TEST_CASE("every byte of a handshake with certificates may be changed, and is noticed") {
  const Site site;
  const SiteCertificates ours = site.load();
  // Sizes differ a little from time to time (signatures), so a place is counted from both ends.
  for (int flight = 0; flight < 4; ++flight) {
    std::size_t size = 1;
    for (std::size_t at = 0; at < size; at += 7) {
      Pair pair = pair_of(ours, ours);
      REQUIRE(pair.client.session.send("question").ok());
      REQUIRE(pair.server.session.send("answer").ok());
      bool version = false;
      for (int i = 0; i <= flight; ++i) {
        End& from = i % 2 == 0 ? pair.client : pair.server;
        std::string bytes = from.session.take_output();
        if (i == flight && !bytes.empty()) {
          size = bytes.size();
          const std::size_t place = std::min(at, size - 1);
          version = is_version(bytes, place);
          bytes[place] = static_cast<char>(bytes[place] ^ (1 << (at % 8)));
        }
        (i % 2 == 0 ? pair.server : pair.client).hear(bytes);
      }
      pair.talk();
      INFO("flight " << flight << ", byte " << at);
      const bool heard = pair.server.plaintext == "question" && pair.client.plaintext == "answer";
      CHECK((!heard || version));
      CHECK((pair.server.plaintext.empty() || pair.server.plaintext == "question"));
      CHECK((pair.client.plaintext.empty() || pair.client.plaintext == "answer"));
      if (flight == 0 && !version) CHECK_FALSE(pair.server.session.established());
      if (flight == 1 && !version) CHECK_FALSE(pair.client.session.established());
    }
    CHECK(size > 20);
  }
}

TEST_CASE("before its certificate is judged a peer may send only so much") {
  const Site site;
  End server(TlsSession::server(site.load(), "job"));
  const std::string record = {0x16, 3, 1, 4, 0};
  std::size_t sent = 0;
  for (server.hear(record + std::string({1, 2, 0, 0}) + std::string(1020, 'x')); server.error.empty() && sent < 1 << 20;
       sent += 1029)
    server.hear(record + std::string(1024, 'x'));
  CHECK(server.session.fault() == TlsFault::protocol);
  CHECK(sent <= kTlsCertificateBytes + 2 * 1029);
}

TEST_CASE("files of certificates that make no sense are refused by name, with the reason") {
  const Site site;
  make_authority(site.folder, "foreign");
  certify(site.folder, "other");
  certify(site.folder, "stranger", "foreign");
  certify(site.folder, "old", "ca", "", -1);
  certify(site.folder, "webserver", "ca", "extendedKeyUsage=serverAuth");
  site.folder.write("text.pem", "no certificate\n");
  site.folder.write("text.key", "no key\n");
  ::chmod(site.file("text.key").c_str(), 0600);
  const auto good = site.files("node");
  const auto with = [&](const char* ca, const char* certificate, const char* key) {
    return site.error({ca != nullptr ? site.file(ca) : good.ca,
                       certificate != nullptr ? site.file(certificate) : good.certificate,
                       key != nullptr ? site.file(key) : good.key});
  };
  CHECK(with("none.pem", nullptr, nullptr) == "the CA file " + site.file("none.pem") + ": No such file or directory");
  CHECK(contains(with("text.pem", nullptr, nullptr), "text.pem: no certificates in PEM form"));
  CHECK(contains(with(nullptr, "none.pem", nullptr), "the certificate " + site.file("none.pem") + ": No such file"));
  CHECK(contains(with(nullptr, "text.pem", nullptr), "text.pem: no usable certificate in PEM form"));
  CHECK(contains(with(nullptr, nullptr, "none.key"), "the private key " + site.file("none.key") + ": No such file"));
  CHECK(contains(with(nullptr, nullptr, "text.key"), "text.key: no private key in PEM form"));
  CHECK(contains(with(nullptr, nullptr, "other.key"), "other.key: does not belong to the certificate"));
  CHECK(contains(with(nullptr, "old.pem", "old.key"), "old.pem: certificate has expired"));
  CHECK(contains(with(nullptr, "stranger.pem", "stranger.key"), "stranger.pem: unable to get local issuer"));
  CHECK(contains(with(nullptr, "foreign.pem", "foreign.key"), "foreign.pem: self-signed certificate"));
  CHECK(contains(with(nullptr, "webserver.pem", "webserver.key"), "unsuitable certificate purpose"));
  CHECK(contains(site.error({site.folder.path().string(), good.certificate, good.key}), "not a regular file"));
  ::chmod(good.key.c_str(), 0640);
  CHECK(contains(site.error(good), "node.key: others may read or change it (mode 0640)"));
}

TEST_CASE("an authority below another is believed for itself alone") {
  const Site site;
  certify(site.folder, "jobs", "ca", "basicConstraints=critical,CA:true");
  certify(site.folder, "worker", "jobs");
  const SiteCertificates below = site.load("worker", "jobs");
  Pair good = pair_of(below, below);
  good.talk();
  CHECK(good.established());
  // A certificate of the one above it.
  CHECK(contains(site.error(site.files("node", "jobs")), "unable to get"));
  Pair pair = pair_of(site.load(), below);
  pair.talk();
  CHECK_FALSE(pair.established());
}
