#include "rendezvous/tls/link_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace dtrain {

namespace {

// Encrypted at once; no more than a session keeps before its handshake is done.
constexpr std::size_t kPieceBytes = kTlsEarlyBytes / 2;

// What ::send says; the socket's peer may have left.
LinkBytes::Status send_some(int fd, std::string_view& bytes, std::string& error) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LinkBytes::Status::blocked;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return LinkBytes::Status::ended;
    if (sent < 0) {
      error = std::strerror(errno);
      return LinkBytes::Status::failed;
    }
    bytes.remove_prefix(std::size_t(sent));
  }
  return LinkBytes::Status::done;
}

}  // namespace

LinkBytes::Status LinkBytes::failed(const Error& error) {
  error_ = error.message;
  return Status::failed;
}

// Everything that TLS has for the peer.
LinkBytes::Status LinkBytes::flush(int fd) {
  for (;;) {
    if (cipher_.empty()) cipher_ = tls_->take_output();
    if (cipher_.empty()) return Status::done;
    std::string_view left = std::string_view(cipher_).substr(cipher_sent_);
    const Status status = send_some(fd, left, error_);
    cipher_sent_ = cipher_.size() - left.size();
    if (status == Status::blocked) return status;
    cipher_.clear();
    cipher_sent_ = 0;
    if (status != Status::done) return status;
  }
}

LinkBytes::Status LinkBytes::send(int fd, std::string_view& plaintext) {
  if (!tls_) return send_some(fd, plaintext, error_);
  for (;;) {
    if (const Status status = flush(fd); status != Status::done) return status;
    if (plaintext.empty()) return Status::done;
    const std::string_view piece = plaintext.substr(0, kPieceBytes);
    if (const auto taken = tls_->send(piece); !taken) return failed(taken.error());
    plaintext.remove_prefix(piece.size());
  }
}

LinkBytes::Status LinkBytes::receive(int fd, std::span<char> buffer, std::string_view& got) {
  got = {};
  const ssize_t size = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Status::blocked;
  if (size < 0) error_ = std::strerror(errno);
  peer_ended_ = size == 0;
  if (size <= 0) return Status::ended;
  const std::string_view bytes(buffer.data(), std::size_t(size));
  if (!tls_) {
    got = bytes;
    return Status::done;
  }
  static thread_local std::string plain;  // one for all links of a thread: there may be thousands
  plain.clear();
  const auto heard = tls_->receive(bytes, plain);
  got = plain;
  const Status flushed = flush(fd);
  if (!heard) return failed(heard.error());
  return flushed == Status::failed ? flushed : Status::done;
}

void LinkBytes::close(int fd) {
  if (!tls_ || unsent()) return;
  tls_->close();
  flush(fd);
}

}  // namespace dtrain
