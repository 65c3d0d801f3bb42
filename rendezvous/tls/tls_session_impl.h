#pragma once
// The inside of a TlsSession. The handshake and its faults are in tls_handshake.cc, the rest in tls_session.cc.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/credentials/tls_context.h"
#include "rendezvous/tls/tls_alerts.h"
#include "rendezvous/tls/tls_bio.h"
#include "rendezvous/tls/tls_session.h"

namespace dtrain {

inline constexpr std::uint64_t kTlsRecordsPerKey = 1ULL << 22;

class TlsSession::Impl final : public TlsKeys {
 public:
  explicit Impl(const OpenSsl& ssl) : ssl_(ssl) {}
  ~Impl() override { ssl_.SSL_free(connection_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> begin_client(const LinkCredential& credential, const LinkName& link);
  // No job: any.
  Result<void> begin_server(const LinkCredential& credential, const std::optional<std::string>& job, Refuse refuse);
  Result<void> begin_certified(const TlsCertificates& certificates, const std::string& name);

  Result<void> receive(std::string_view bytes, std::string& plaintext);
  Result<void> send(std::string_view plaintext);
  void close();

  bool own_identity(std::string_view& identity, SecretSpan& key) override;
  bool key_of(std::string_view identity, SecretSpan& key) override;
  bool without_key() override;
  bool take_name(std::string_view name) override;

  TlsBytes bytes_{{}, kTlsHandshakeBytes, {}};
  LinkName link_;
  TlsFault fault_ = TlsFault::none;
  bool established_ = false;
  bool peer_closed_ = false;
  std::uint64_t records_per_key_ = kTlsRecordsPerKey;

 private:
  Result<void> open(SSL_CTX* context);
  Result<void> open_with(const LinkCredential& credential);
  Result<void> offer_key();
  Result<void> offer_name();
  bool take_link(const LinkName& link);
  Result<void> handshake();
  std::string unproved() const;
  Result<void> read(std::string& plaintext);
  Result<void> judge(int result);
  Result<void> fail(TlsFault fault, std::string message, unsigned char alert = 0);
  Result<void> fail_by_openssl();
  Result<void> fail_by_alert(int alert);
  bool refuse_identity(TlsFault fault, std::string message, unsigned char alert);

  const OpenSsl& ssl_;
  TlsProof proof_ = TlsProof::program;
  std::optional<JobSecret> secret_;  // of a token
  SSL* connection_ = nullptr;
  bool server_ = false;
  bool any_job_ = false;
  std::string fingerprint_, job_, identity_job_, identity_;
  Refuse refuse_;
  std::optional<LinkKey> key_;  // until the handshake is done
  std::string early_;           // plaintext to send after it
  bool first_bytes_ = true;
  bool closed_ = false;
  std::uint64_t records_ = 0;
  std::optional<Error> error_;
  // What the callback of the handshake found wrong with a client's identity.
  std::optional<std::pair<TlsFault, std::string>> refusal_;
  unsigned char refusal_alert_ = 0;
};

}  // namespace dtrain
