#pragma once
// Two ends of one TLS link without a network: what one has to say is carried to the other until both are silent.
#include <string>
#include <utility>

#include "rendezvous/tls/tls_session.h"
#include "test/support/catch.h"

namespace dtrain::test {

inline JobSecret new_secret() {
  auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  return *secret;
}

struct End {
  explicit End(Result<TlsSession> made) : session(make(std::move(made))) {}
  static TlsSession make(Result<TlsSession> made) {
    INFO((made ? "" : made.error().message));
    REQUIRE(made.ok());
    return std::move(made).value();
  }

  // Hear `bytes`, in pieces.
  void hear(std::string_view bytes, std::size_t piece = std::string_view::npos) {
    while (!bytes.empty() && error.empty()) {
      const auto cut = bytes.substr(0, piece);
      bytes.remove_prefix(cut.size());
      if (auto done = session.receive(cut, plaintext); !done) error = done.error().message;
    }
  }

  TlsSession session;
  std::string plaintext;  // what the peer said
  std::string error;
};

struct Pair {
  End client, server;

  // Carry everything both ways; `piece`: at most so many bytes at once. Returns the bytes carried.
  std::size_t talk(std::size_t piece = std::string_view::npos) {
    std::size_t carried = 0;
    for (bool quiet = false; !quiet;) {
      const std::string there = client.session.take_output();
      server.hear(there, piece);
      const std::string back = server.session.take_output();
      client.hear(back, piece);
      carried += there.size() + back.size();
      quiet = there.empty() && back.empty();
    }
    return carried;
  }

  bool established() const { return client.session.established() && server.session.established(); }
};

inline const LinkName kAgentLink{LinkRole::agent, 0, "job"};

inline Pair pair_of(const JobSecret& secret, const LinkName& link = kAgentLink) {
  return {End(TlsSession::client(secret, link)), End(TlsSession::server(secret, link.job))};
}

// Whether the byte belongs to the version of a record, which TLS 1.3 sends for old machines on the way only.
inline bool is_version(const std::string& flight, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(flight[i]); };
  std::size_t record = 0;
  for (std::size_t next = 0; next <= at; next = record + 5 + byte(record + 3) * 256U + byte(record + 4)) record = next;
  return at == record + 1 || at == record + 2;
}

}  // namespace dtrain::test
