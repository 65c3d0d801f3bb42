// What goes through a session: bytes in and out, before and after the handshake.
#include "rendezvous/tls/tls_session.h"

#include <array>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/tls/tls_session_impl.h"

namespace dtrain {
namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;
constexpr std::size_t kRecordOverhead = 5 + 1 + 16;  // header, type, tag

}  // namespace

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
    return fail(
        TlsFault::not_tls,
        secret_
            ? "the peer does not speak TLS: it is not dtrain, or it was started with --insecure and this node was not"
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

Result<TlsSession> TlsSession::client(const LinkCredential& credential, const LinkName& link) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  auto impl = std::make_unique<Impl>(**ssl);
  if (auto done = impl->begin_client(credential, link); !done) return done.error();
  return TlsSession(std::move(impl));
}

Result<TlsSession> TlsSession::server(const LinkCredential& credential, const std::string& job, Refuse refuse) {
  return server_of(credential, job, std::move(refuse));
}

Result<TlsSession> TlsSession::server_of_any_job(const LinkCredential& credential) {
  return server_of(credential, std::nullopt, {});
}

Result<TlsSession> TlsSession::server_of(const LinkCredential& credential, const std::optional<std::string>& job,
                                         Refuse refuse) {
  auto ssl = openssl();
  if (!ssl) return ssl.error();
  auto impl = std::make_unique<Impl>(**ssl);
  if (auto done = impl->begin_server(credential, job, std::move(refuse)); !done) return done.error();
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
