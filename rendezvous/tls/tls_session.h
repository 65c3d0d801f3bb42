#pragma once
// One end of an encrypted connection between two agents: TLS 1.3 with a key that only this job's agents can derive
// (job_secret.h), psk_dhe_ke over X25519, TLS_AES_128_GCM_SHA256, without tickets, resumption and early data; or the
// same with certificates that both ends must show (site_certificates.h) in place of the key. No sockets: the caller
// carries bytes. What to do with a connection:
//
//   auto session = TlsSession::client(credential, {LinkRole::store, round, job});   // or server(...)
//   write(session->take_output())                        // at once (the client speaks first), and after every call
//   on bytes:  session->receive(bytes, plaintext)        // an error: write take_output(), then close the connection
//   to send:   session->send(plaintext)                  // from the start on: kept until the handshake is done
//   to end:    session->close(), write(take_output()), close the connection
//   on end of file: unless session->peer_closed() the connection was cut, and something may be missing.
//
// Until established() nothing of the peer's is given out, and it may have sent at most kTlsHandshakeBytes; how long it
// may take is the caller's to limit. A session belongs to one thread at a time; different ones may be used at once.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/credentials/link_name.h"
#include "rendezvous/tls/tls_fault.h"

namespace dtrain {

inline constexpr std::size_t kTlsHandshakeBytes = 16 * 1024;    // of the peer, before it is known
inline constexpr std::size_t kTlsCertificateBytes = 64 * 1024;  // the same, where it shows certificates
inline constexpr std::size_t kTlsEarlyBytes = 64 * 1024;        // of our own, that wait for the handshake

class TlsCertificates;  // tls_certificates.h

class TlsSession {
 public:
  // Asked when a client has named a link of this job and before its key is derived, or a certificate shown: the empty
  // string takes it, a reason refuses it.
  using Refuse = std::function<std::string(const LinkName&)>;

  static Result<TlsSession> client(const LinkCredential& credential, const LinkName& link);
  static Result<TlsSession> server(const LinkCredential& credential, const std::string& job, Refuse refuse = {});
  // For every job with this credential; link().job is then the name as LinkCredential::identity_job() has it.
  static Result<TlsSession> server_of_any_job(const LinkCredential& credential);

  // With another program, which has a certificate for `name` (a host's name or numeric address) instead of our secret.
  static Result<TlsSession> client(const TlsCertificates& certificates, const std::string& name);

  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  // Bytes of the peer, cut anyhow; what they say is appended to `plaintext`: in all never more than was given. An error
  // is final, one line, and the same from then on. What came in whole before it is still appended.
  Result<void> receive(std::string_view bytes, std::string& plaintext);

  // Encrypt. An error if the session has failed or was closed, or if more than kTlsEarlyBytes wait for the handshake.
  Result<void> send(std::string_view plaintext);

  // What is to be written to the peer now; empty: nothing.
  std::string take_output();

  // The peer has shown that it has the key, or a good certificate. A client may be established before the server is.
  bool established() const;
  // Whom the connection is with, once established: role, epoch and job. Not with another program.
  const LinkName& link() const;

  // Tell the peer that nothing more comes. No error if the session is not established or has failed.
  void close();
  // The peer has said so. What it sends after that is ignored.
  bool peer_closed() const;

  TlsFault fault() const;

  // For tests: a new sending key after so many calls of send(); AES-GCM wears out after 2^24.5 records.
  void renew_key_after(std::uint64_t records);

 private:
  class Impl;
  static Result<TlsSession> server_of(const LinkCredential& credential, const std::optional<std::string>& job,
                                      Refuse refuse);
  explicit TlsSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
