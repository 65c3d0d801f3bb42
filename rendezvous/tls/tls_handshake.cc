// The handshake and its faults. OpenSSL does the protocol; who may speak, and how a fault reads, is decided here.
#include <fmt/format.h>

#include "rendezvous/base/printable.h"
#include "rendezvous/credentials/tls_certificates.h"
#include "rendezvous/tls/tls_session_impl.h"

namespace dtrain {
namespace {

constexpr int kAlertReasons = 1000;  // OpenSSL's reason for a received alert is this plus its number

std::string alert_record(unsigned char description) { return {0x15, 3, 3, 0, 2, 2, static_cast<char>(description)}; }

}  // namespace

Result<void> TlsSession::Impl::open(SSL_CTX* context) {
  connection_ = ssl_.SSL_new(context);
  BIO* bio = connection_ != nullptr ? tls_bio(ssl_, bytes_) : nullptr;
  if (bio == nullptr) return Error{ErrorKind::system, "OpenSSL has no memory for a connection"};
  ssl_.SSL_set_bio(connection_, bio, bio);
  ssl_.SSL_set_ex_data(connection_, 0, static_cast<TlsKeys*>(this));
  return {};
}

Result<void> TlsSession::Impl::open_with(const LinkCredential& credential) {
  if (const JobSecret* secret = credential.secret()) {
    proof_ = TlsProof::token;
    secret_ = *secret;
    auto context = tls_context(ssl_);
    if (!context) return context.error();
    if (auto done = open(*context); !done) return done;
    auto fingerprint = secret_->fingerprint();
    if (!fingerprint) return fingerprint.error();
    fingerprint_ = *fingerprint;
  } else {
    proof_ = TlsProof::site;
    bytes_.allowance = kTlsCertificateBytes;
    if (auto done = open(credential.certificates()->context()); !done) return done;
  }
  auto identity_job = credential.identity_job(job_);
  if (!identity_job) return identity_job.error();
  identity_job_ = *identity_job;
  return {};
}

Result<void> TlsSession::Impl::begin_client(const LinkCredential& credential, const LinkName& link) {
  link_ = link;
  job_ = link.job;
  if (auto done = open_with(credential); !done) return done;
  if (auto done = secret_ ? offer_key() : offer_name(); !done) return done;
  ssl_.SSL_set_connect_state(connection_);
  return handshake();
}

Result<void> TlsSession::Impl::offer_key() {
  auto key = secret_->key_of({link_.role, link_.epoch, identity_job_});
  if (!key) return key.error();
  key_ = *key;
  identity_ = encode(LinkIdentity{{link_.role, link_.epoch, identity_job_}, fingerprint_});
  // A server that offers a certificate instead of the key is refused: no certificate is trusted.
  ssl_.SSL_set_verify(connection_, SSL_VERIFY_PEER, nullptr);
  return {};
}

Result<void> TlsSession::Impl::offer_name() {
  identity_ = encode(LinkName{link_.role, link_.epoch, identity_job_});
  const std::string list = static_cast<char>(identity_.size()) + identity_;
  if (ssl_.SSL_set_alpn_protos(connection_, reinterpret_cast<const unsigned char*>(list.data()),
                               static_cast<unsigned>(list.size())) == 0)
    return {};
  return Error{ErrorKind::system, "OpenSSL has no memory for the name of a link"};
}

Result<void> TlsSession::Impl::begin_server(const LinkCredential& credential, const std::optional<std::string>& job,
                                            Refuse refuse) {
  server_ = true;
  any_job_ = !job;
  job_ = job.value_or("");
  refuse_ = std::move(refuse);
  if (auto done = open_with(credential); !done) return done;
  ssl_.SSL_set_accept_state(connection_);
  return {};
}

Result<void> TlsSession::Impl::begin_certified(const TlsCertificates& certificates, const std::string& name) {
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
  if (!secret_)
    return refuse_identity(TlsFault::token, "the peer has a token, and this node has certificates (--tls-ca)",
                           kCertificateRequired);
  const auto identity = parse_identity(text);
  if (!identity) return refuse_identity(TlsFault::protocol, "the peer is not an agent of this version of dtrain", 0);
  if (identity->fingerprint != fingerprint_)
    return refuse_identity(TlsFault::token,
                           fmt::format("the token differs: the peer's has the fingerprint {}, this node's {}",
                                       identity->fingerprint, fingerprint_),
                           kUnknownPskIdentity);
  if (!take_link(identity->link)) return false;
  auto derived = secret_->key_of(identity->link);
  if (!derived) return refuse_identity(TlsFault::local, derived.error().message, 0);
  key_ = *derived;
  key = SecretSpan(*key_);
  return true;
}

bool TlsSession::Impl::without_key() {
  return refuse_identity(TlsFault::token, "the peer has certificates (--tls-ca), and this node has a token",
                         kUnknownPskIdentity);
}

bool TlsSession::Impl::take_name(std::string_view name) {
  const auto link = parse_link_name(name);
  if (!link) return refuse_identity(TlsFault::protocol, "the peer is not an agent of this version of dtrain", 0);
  identity_ = name;
  return take_link(*link);
}

// Whether this server has the link that the client has named.
bool TlsSession::Impl::take_link(const LinkName& link) {
  if (any_job_) job_ = identity_job_ = link.job;
  if (link.job != identity_job_)
    return refuse_identity(
        TlsFault::job,
        fmt::format("the peer belongs to another job with {}", secret_ ? "the same token" : "certificates"),
        kUnrecognizedName);
  link_ = {link.role, link.epoch, job_};
  if (std::string why = refuse_ ? refuse_(link_) : ""; !why.empty())
    return refuse_identity(TlsFault::refused, std::move(why), kAccessDenied);
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

Result<void> TlsSession::Impl::fail_by_alert(int alert) {
  auto [fault, message] = meaning_of_alert(alert, {proof_, established_, fingerprint_, link_});
  return fail(fault, std::move(message));
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
    return fail(proof_ == TlsProof::site ? TlsFault::token : TlsFault::refused,
                fmt::format("the peer's certificate is not valid: {}", ssl_.X509_verify_cert_error_string(verified)));
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return fail(TlsFault::token, "the peer shows no certificate");
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

// What a handshake that OpenSSL takes for done leaves open; empty: nothing.
std::string TlsSession::Impl::unproved() const {
  if (proof_ == TlsProof::token && (ssl_.SSL_session_reused(connection_) != 1 || !key_))
    return "the peer has not proved that it has the token";
  if (proof_ != TlsProof::site) return "";
  if (ssl_.SSL_get0_peer_certificate(connection_) == nullptr || ssl_.SSL_get_verify_result(connection_) != X509_V_OK)
    return "the peer has shown no valid certificate";
  const unsigned char* agreed = nullptr;
  unsigned size = 0;
  ssl_.SSL_get0_alpn_selected(connection_, &agreed, &size);
  if (identity_.empty() || std::string_view(reinterpret_cast<const char*>(agreed), size) != identity_)
    return "the peer is not an agent of this version of dtrain";
  return "";
}

Result<void> TlsSession::Impl::handshake() {
  ssl_.ERR_clear_error();
  const int result = ssl_.SSL_do_handshake(connection_);
  if (result != 1) return judge(result);
  if (std::string why = unproved(); !why.empty()) return fail(TlsFault::protocol, std::move(why));
  key_.reset();
  established_ = true;
  bytes_.allowance = static_cast<std::size_t>(-1);
  if (early_.empty()) return {};
  return send(std::exchange(early_, {}));
}

}  // namespace dtrain
