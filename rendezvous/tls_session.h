#pragma once
// One end of an encrypted connection between two agents: TLS 1.3 with a key that only this job's agents can derive
// (job_secret.h), psk_dhe_ke over X25519, TLS_AES_128_GCM_SHA256, without tickets, resumption and early data. No
// sockets: the caller carries bytes. What to do with a connection:
//
//   auto session = TlsSession::client(secret, {LinkRole::store, round, job});   // or server(...)
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
#include "rendezvous/job_secret.h"
#include "rendezvous/link_name.h"

namespace dtrain {

inline constexpr std::size_t kTlsHandshakeBytes = 16 * 1024;    // of the peer, before it is known
inline constexpr std::size_t kTlsCertificateBytes = 64 * 1024;  // the same, where it shows certificates
inline constexpr std::size_t kTlsEarlyBytes = 64 * 1024;        // of our own, that wait for the handshake

// Why a session failed; for decisions. A client has most of these from the server's word alone (an alert in clear),
// which anyone on the way can forge: good for a message and for trying again later, not for more.
enum class TlsFault {
  none,
  token,     // the two ends have different secrets
  job,       // the server serves another job
  refused,   // the server's `refuse` said no: another epoch, a role it does not serve
  not_tls,   // the peer speaks something else, for example --insecure
  protocol,  // garbage, a changed byte, another version of TLS
  local,     // OpenSSL is missing or failed on this side
};

class TlsCertificates;  // tls_context.h

class TlsSession {
 public:
  // Asked when a client has named a link of this job and before its key is derived: the empty string takes it, a reason
  // refuses it.
  using Refuse = std::function<std::string(const LinkName&)>;

  static Result<TlsSession> client(const JobSecret& secret, const LinkName& link);
  static Result<TlsSession> server(const JobSecret& secret, const std::string& job, Refuse refuse = {});
  // For every job with this secret; link().job is then the name as an identity has it (JobSecret::identity_job).
  static Result<TlsSession> server_of_any_job(const JobSecret& secret);

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

  // The peer has shown that it has the key. A client may be established before the server is.
  bool established() const;
  // Whom the connection is with, once established: role, epoch and job of the key. Not with certificates.
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
  static Result<TlsSession> server_of(const JobSecret& secret, const std::optional<std::string>& job, Refuse refuse);
  explicit TlsSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
