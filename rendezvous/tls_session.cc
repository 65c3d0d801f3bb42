// The handshake and its faults. OpenSSL does the protocol; who may speak, and how a fault reads, is decided here.
#include "rendezvous/tls_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/tls_context.h"

namespace dtrain {
namespace {

constexpr std::uint64_t kRecordsPerKey = 1ULL << 22;
constexpr std::size_t kRecordBytes = 16 * 1024;
constexpr std::size_t kRecordOverhead = 5 + 1 + 16;  // header, type, tag

// Alerts (RFC 8446, 6.2) by which a server says why it refuses a client's first words.
constexpr unsigned char kDecryptError = 51;         // the key of that identity is another one here
constexpr unsigned char kUnknownPskIdentity = 115;  // another secret
constexpr unsigned char kUnrecognizedName = 112;    // another job
constexpr unsigned char kAccessDenied = 49;         // another epoch, a role that is not served
// By which any peer refuses a certificate, or the lack of one.
constexpr int kCertificateAlerts[] = {40, 41, 42, 43, 44, 45, 46, 48, 116};
constexpr int kAlertReasons = 1000;  // OpenSSL's reason for a received alert is this plus its number

std::string alert_record(unsigned char description) { return {0x15, 3, 3, 0, 2, 2, static_cast<char>(description)}; }

}  // namespace

class TlsSession::Impl final : public TlsKeys {
 public:
  explicit Impl(const OpenSsl& ssl) : ssl_(ssl) {}
  ~Impl() override { ssl_.SSL_free(connection_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> begin_client(const JobSecret& secret, const LinkName& link);
  // No job: any.
  Result<void> begin_server(const JobSecret& secret, const std::optional<std::string>& job, Refuse refuse);
  Result<void> begin_certified(const TlsCertificates& certificates, const std::string& name);

  Result<void> receive(std::string_view bytes, std::string& plaintext);
  Result<void> send(std::string_view plaintext);
  void close();

  bool own_identity(std::string_view& identity, SecretSpan& key) override;
  bool key_of(std::string_view identity, SecretSpan& key) override;

  TlsBytes bytes_{{}, kTlsHandshakeBytes, {}};
  LinkName link_;
  TlsFault fault_ = TlsFault::none;
  bool established_ = false;
  bool peer_closed_ = false;
  std::uint64_t records_per_key_ = kRecordsPerKey;

 private:
  Result<void> open(SSL_CTX* context);
  Result<void> open_with(const JobSecret& secret);
  Result<void> handshake();
  Result<void> read(std::string& plaintext);
  Result<void> judge(int result);
  Result<void> fail(TlsFault fault, std::string message, unsigned char alert = 0);
  Result<void> fail_by_openssl();
  Result<void> fail_by_alert(int alert);
  bool refuse_identity(TlsFault fault, std::string message, unsigned char alert);

  const OpenSsl& ssl_;
  std::optional<JobSecret> secret_;  // none: certificates
  std::optional<TlsCertificates> certificates_;
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

Result<void> TlsSession::Impl::open(SSL_CTX* context) {
  connection_ = ssl_.SSL_new(context);
  BIO* bio = connection_ != nullptr ? tls_bio(ssl_, bytes_) : nullptr;
  if (bio == nullptr) return Error{ErrorKind::system, "OpenSSL has no memory for a connection"};
  ssl_.SSL_set_bio(connection_, bio, bio);
  ssl_.SSL_set_ex_data(connection_, 0, static_cast<TlsKeys*>(this));
  return {};
}

Result<void> TlsSession::Impl::open_with(const JobSecret& secret) {
  secret_ = secret;
  auto context = tls_context(ssl_);
  if (!context) return context.error();
  if (auto done = open(*context); !done) return done;
  auto fingerprint = secret_->fingerprint();
  if (!fingerprint) return fingerprint.error();
  fingerprint_ = *fingerprint;
  auto identity_job = secret_->identity_job(job_);
  if (!identity_job) return identity_job.error();
  identity_job_ = *identity_job;
  return {};
}

Result<void> TlsSession::Impl::begin_client(const JobSecret& secret, const LinkName& link) {
  link_ = link;
  job_ = link.job;
  if (auto done = open_with(secret); !done) return done;
  auto key = secret_->key_of({link.role, link.epoch, identity_job_});
  if (!key) return key.error();
  key_ = *key;
  identity_ = encode(LinkIdentity{{link.role, link.epoch, identity_job_}, fingerprint_});
  ssl_.SSL_set_connect_state(connection_);
  // A server that offers a certificate instead of the key is refused: no certificate is trusted.
  ssl_.SSL_set_verify(connection_, SSL_VERIFY_PEER, nullptr);
  return handshake();
}

Result<void> TlsSession::Impl::begin_server(const JobSecret& secret, const std::optional<std::string>& job,
                                            Refuse refuse) {
  server_ = true;
  any_job_ = !job;
  job_ = job.value_or("");
  refuse_ = std::move(refuse);
  if (auto done = open_with(secret); !done) return done;
  ssl_.SSL_set_accept_state(connection_);
  return {};
}

Result<void> TlsSession::Impl::begin_certified(const TlsCertificates& certificates, const std::string& name) {
  certificates_ = certificates;
  bytes_.allowance = kTlsCertificateBytes;
  records_per_key_ = static_cast<std::uint64_t>(-1);  // OpenSSL's own rule: the peer may speak TLS 1.2
  if (auto done = open(certificates.context()); !done) return done;
  // The name must be the certificate's. Of a numeric address that is an address in it, and no name is sent.
  bool named = ssl_.X509_VERIFY_PARAM_set1_ip_asc(ssl_.SSL_get0_param(connection_), name.c_str()) == 1;
  if (!named) {
    std::string sent = name;
    named = ssl_.SSL_set1_host(connection_, name.c_str()) == 1 &&
            ssl_.SSL_ctrl(connection_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, sent.data()) == 1;
  }
  if (!named) return Error{ErrorKind::system, fmt::format("'{}' cannot be in a certificate", printable(name))};
  ssl_.SSL_set_connect_state(connection_);
  return handshake();
}

bool TlsSession::Impl::own_identity(std::string_view& identity, SecretSpan& key) {
  if (server_ || !key_) return false;
  identity = identity_;
  key = SecretSpan(*key_);
  return true;
}

bool TlsSession::Impl::refuse_identity(TlsFault fault, std::string message, unsigned char alert) {
  refusal_.emplace(fault, std::move(message));
  refusal_alert_ = alert;
  return false;
}

bool TlsSession::Impl::key_of(std::string_view text, SecretSpan& key) {
  const auto identity = parse_identity(text);
  if (!identity) return refuse_identity(TlsFault::protocol, "the peer is no agent of this version of dtrain", 0);
  if (identity->fingerprint != fingerprint_)
    return refuse_identity(TlsFault::token,
                           fmt::format("the token differs: the peer's has the fingerprint {}, this node's {}",
                                       identity->fingerprint, fingerprint_),
                           kUnknownPskIdentity);
  if (any_job_) job_ = identity_job_ = identity->link.job;
  if (identity->link.job != identity_job_)
    return refuse_identity(TlsFault::job, "the peer is of another job with the same token", kUnrecognizedName);
  link_ = {identity->link.role, identity->link.epoch, job_};
  if (std::string why = refuse_ ? refuse_(link_) : ""; !why.empty())
    return refuse_identity(TlsFault::refused, std::move(why), kAccessDenied);
  auto derived = secret_->key_of(identity->link);
  if (!derived) return refuse_identity(TlsFault::local, derived.error().message, 0);
  key_ = *derived;
  key = SecretSpan(*key_);
  return true;
}

Result<void> TlsSession::Impl::fail(TlsFault fault, std::string message, unsigned char alert) {
  fault_ = fault;
  early_.clear();
  key_.reset();
  // OpenSSL's own choice of alert says less. In clear, and the only thing this side has said so far.
  if (alert != 0 && server_ && !established_ && bytes_.output.size() <= alert_record(alert).size())
    bytes_.output = alert_record(alert);
  error_ = Error{ErrorKind::system, std::move(message)};
  return *error_;
}

// Of TLS 1.3 a client is established before the server has seen its certificate.
Result<void> TlsSession::Impl::fail_by_alert(int alert) {
  if (!secret_ &&
      std::find(std::begin(kCertificateAlerts), std::end(kCertificateAlerts), alert) != std::end(kCertificateAlerts))
    return fail(TlsFault::refused, fmt::format("the peer wants a certificate that it trusts (TLS alert {})", alert));
  if (secret_ && !established_) {
    if (alert == kUnknownPskIdentity || alert == kDecryptError)
      return fail(TlsFault::token, fmt::format("the token differs: the peer does not have the one with the fingerprint "
                                               "{}; give every node the same",
                                               fingerprint_));
    if (alert == kUnrecognizedName) return fail(TlsFault::job, "the peer serves another job: its --rdzv-id differs");
    if (alert == kAccessDenied)
      return fail(TlsFault::refused,
                  fmt::format("the peer refuses the {} link of round {}", word_of(link_.role), link_.epoch));
  }
  return fail(TlsFault::protocol, fmt::format("the peer ended the encrypted connection (TLS alert {})", alert));
}

Result<void> TlsSession::Impl::fail_by_openssl() {
  const unsigned long code = ssl_.ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (refusal_) return fail(refusal_->first, std::move(refusal_->second), refusal_alert_);
  if (reason > kAlertReasons && reason <= kAlertReasons + 255) return fail_by_alert(reason - kAlertReasons);
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
    return fail(TlsFault::token, "the token differs, though its fingerprint is the same", kDecryptError);
  const long verified = secret_ ? X509_V_OK : ssl_.SSL_get_verify_result(connection_);
  if (!established_ && verified != X509_V_OK)
    return fail(TlsFault::refused,
                fmt::format("the peer's certificate is not good: {}", ssl_.X509_verify_cert_error_string(verified)));
  const char* text = ssl_.ERR_reason_error_string(code);
  const char* what = established_ ? "the encrypted connection was disturbed" : "no encrypted connection with the peer";
  return fail(TlsFault::protocol, fmt::format("{} (TLS: {})", what, text != nullptr ? text : "unknown error"));
}

// What a call of OpenSSL's that gave `result` means: nothing if it only wants more bytes.
Result<void> TlsSession::Impl::judge(int result) {
  const int error = ssl_.SSL_get_error(connection_, result);
  if (error == SSL_ERROR_ZERO_RETURN) {
    peer_closed_ = true;
    return {};
  }
  if (error != SSL_ERROR_WANT_READ) return fail_by_openssl();
  if (!established_ && bytes_.allowance == 0)
    return fail(TlsFault::protocol, fmt::format("the peer sent {} bytes without proving that it {}",
                                                secret_ ? kTlsHandshakeBytes : kTlsCertificateBytes,
                                                secret_ ? "has the token" : "is the one"));
  return {};
}

Result<void> TlsSession::Impl::handshake() {
  ssl_.ERR_clear_error();
  const int result = ssl_.SSL_do_handshake(connection_);
  if (result != 1) return judge(result);
  if (secret_ && (ssl_.SSL_session_reused(connection_) != 1 || !key_))
    return fail(TlsFault::protocol, "the peer has not proved that it has the token");
  key_.reset();
  established_ = true;
  bytes_.allowance = static_cast<std::size_t>(-1);
  if (early_.empty()) return {};
  return send(std::exchange(early_, {}));
}

Result<void> TlsSession::Impl::read(std::string& plaintext) {
  std::array<char, kRecordBytes> record;
  while (!peer_closed_) {
    std::size_t size = 0;
    ssl_.ERR_clear_error();
    const int result = ssl_.SSL_read_ex(connection_, record.data(), record.size(), &size);
    if (result != 1) return judge(result);
    plaintext.append(record.data(), size);
  }
  return {};
}

Result<void> TlsSession::Impl::receive(std::string_view bytes, std::string& plaintext) {
  if (error_) return *error_;
  if (bytes.empty() || peer_closed_) return {};
  constexpr char kAlert = 0x15, kHandshake = 0x16;
  if (std::exchange(first_bytes_, false) && bytes[0] != kAlert && bytes[0] != kHandshake)
    return fail(TlsFault::not_tls,
                secret_
                    ? "the peer does not speak TLS: it is no dtrain, or was started with --insecure and this node not"
                    : "the peer does not speak TLS");
  bytes_.input = bytes;
  bytes_.allowance = established_ ? bytes.size() : bytes_.allowance;
  Result<void> done = established_ ? Result<void>() : handshake();
  if (done && established_) done = read(plaintext);
  bytes_.input = {};
  return done;
}

Result<void> TlsSession::Impl::send(std::string_view plaintext) {
  if (error_) return *error_;
  if (closed_) return Error{ErrorKind::system, "the encrypted connection is closed"};
  if (plaintext.empty()) return {};
  if (!established_) {
    if (plaintext.size() > kTlsEarlyBytes - early_.size())
      return Error{ErrorKind::system, "too much to send before the encrypted connection is there"};
    early_.append(plaintext);
    return {};
  }
  ssl_.ERR_clear_error();
  const std::uint64_t records = (plaintext.size() + kRecordBytes - 1) / kRecordBytes;
  if (records_ += records; records_ > records_per_key_) {
    records_ = records;
    if (ssl_.SSL_key_update(connection_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return fail_by_openssl();
  }
  // Growing record by record would copy them again and again.
  bytes_.output.reserve(bytes_.output.size() + plaintext.size() + records * kRecordOverhead);
  std::size_t size = 0;
  const int result = ssl_.SSL_write_ex(connection_, plaintext.data(), plaintext.size(), &size);
  if (result != 1) return fail_by_openssl();
  DT_CHECK(size == plaintext.size(), "the output takes everything");
  return {};
}

void TlsSession::Impl::close() {
  if (error_ || std::exchange(closed_, true)) return;
  early_.clear();  // closed before it could be sent
  if (!established_) return;
  ssl_.ERR_clear_error();
  ssl_.SSL_shutdown(connection_);
}

TlsSession::TlsSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

Result<TlsSession> TlsSession::client(const JobSecret& secret, const LinkName& link) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  auto impl = std::make_unique<Impl>(**ssl);
  if (auto done = impl->begin_client(secret, link); !done) return done.error();
  return TlsSession(std::move(impl));
}

Result<TlsSession> TlsSession::server(const JobSecret& secret, const std::string& job, Refuse refuse) {
  return server_of(secret, job, std::move(refuse));
}

Result<TlsSession> TlsSession::server_of_any_job(const JobSecret& secret) {
  return server_of(secret, std::nullopt, {});
}

Result<TlsSession> TlsSession::server_of(const JobSecret& secret, const std::optional<std::string>& job,
                                         Refuse refuse) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  auto impl = std::make_unique<Impl>(**ssl);
  if (auto done = impl->begin_server(secret, job, std::move(refuse)); !done) return done.error();
  return TlsSession(std::move(impl));
}

Result<TlsSession> TlsSession::client(const TlsCertificates& certificates, const std::string& name) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  auto impl = std::make_unique<Impl>(**ssl);
  if (auto done = impl->begin_certified(certificates, name); !done) return done.error();
  return TlsSession(std::move(impl));
}

Result<void> TlsSession::receive(std::string_view bytes, std::string& plaintext) {
  return impl_->receive(bytes, plaintext);
}
Result<void> TlsSession::send(std::string_view plaintext) { return impl_->send(plaintext); }
std::string TlsSession::take_output() { return std::exchange(impl_->bytes_.output, {}); }
bool TlsSession::established() const { return impl_->established_; }
const LinkName& TlsSession::link() const { return impl_->link_; }
void TlsSession::close() { impl_->close(); }
bool TlsSession::peer_closed() const { return impl_->peer_closed_; }
TlsFault TlsSession::fault() const { return impl_->fault_; }
void TlsSession::renew_key_after(std::uint64_t records) { impl_->records_per_key_ = records; }

}  // namespace dtrain
