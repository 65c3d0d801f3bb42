#pragma once
// A connection between two agents, with TLS on it or without: plaintext in, plaintext out. No event loop and no
// waiting; whoever has one of these waits for the socket as it is told.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/tls/tls_session.h"

namespace dtrain {

struct LinkSocket {
  UniqueFd fd;                      // non-blocking, connected or about to be
  std::optional<TlsSession> tls{};  // none: plain
};

// What goes over its socket.
class LinkBytes {
 public:
  enum class Status {
    done,
    blocked,  // wait until the socket is readable or writable, then call again
    ended,    // the peer has closed the connection, or takes nothing more
    failed,   // error() says why
  };

  explicit LinkBytes(std::optional<TlsSession> tls = {}) : tls_(std::move(tls)) {}

  // Take from the front of `plaintext` what can be sent now; with nothing in it: write what is unsent().
  Status send(int fd, std::string_view& plaintext);
  // Read once. `got` lies in `buffer`, or in memory that this thread's next call takes. It may be empty, and it may
  // have something though the status is not `done`. Afterwards there may be something unsent().
  Status receive(int fd, std::span<char> buffer, std::string_view& got);
  // The peer's own kernel has said that nothing more comes: its process has closed the connection, or has died.
  bool peer_ended() const { return peer_ended_; }
  // Bytes of TLS's that the socket would not take: wait until it is writable, then send().
  bool unsent() const { return !cipher_.empty(); }
  std::size_t held_bytes() const { return cipher_.capacity(); }

  // Tell the peer, as far as the socket takes it, that nothing more comes.
  void close(int fd);

  // The peer has proved who it is; without TLS: never asked.
  bool established() const { return !tls_ || tls_->established(); }
  bool encrypted() const { return tls_.has_value(); }
  const LinkName& link() const { return tls_->link(); }
  // To go on elsewhere, with nothing unsent.
  std::optional<TlsSession> release() { return std::move(tls_); }

  TlsFault fault() const { return tls_ ? tls_->fault() : TlsFault::none; }
  // Of `failed`; of `ended` too if the connection was not closed but broke.
  const std::string& error() const { return error_; }

 private:
  Status flush(int fd);
  Status failed(const Error& error);

  std::optional<TlsSession> tls_;
  std::string cipher_;
  std::size_t cipher_sent_ = 0;
  bool peer_ended_ = false;
  std::string error_;
};

}  // namespace dtrain
