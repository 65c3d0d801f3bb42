// Accepts, admits, reads, answers and closes connections; what the bytes mean is decided by StoreDecoder and StoreCore.
#include "rendezvous/store_loop.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <cerrno>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBytes = std::size_t{128} << 10;
// A connection that sends without pause lets the others have their turn after this many reads.
constexpr int kReadsPerTurn = 8;
constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptRetry{100};
// Replies collected before they are written, when one read holds many requests.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
// A client that does not read its replies is not read from either.
constexpr std::size_t kPauseBytes = std::size_t{1} << 20;
constexpr int kLogLines = 10;
constexpr std::chrono::seconds kLogWindow{10};

}  // namespace

struct StoreLoop::Session {
  Session(asio::io_context& io, UniqueFd fd, ConnectionId number, const StoreWireLimits& limits)
      : id(number), socket(io, fd.release()), decoder(limits) {}

  ConnectionId id;
  asio::posix::stream_descriptor socket;
  StoreDecoder decoder;
  std::string output;           // what the socket would not take yet
  std::size_t output_sent = 0;  // its front, already written
  std::size_t accounted = 0;    // its share of buffered_bytes_
  bool heard = false;           // something has come
  bool waits_readable = false;
  bool waits_writable = false;
  bool paused = false;  // not read from until output has drained
  std::chrono::steady_clock::time_point deadline{};
  std::optional<std::list<ConnectionId>::iterator> silent;

  bool open() const { return socket.is_open(); }
  std::size_t unsent() const { return output.size() - output_sent; }
};

StoreLoop::StoreLoop(asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
                     StoreHost::Options options)
    : io_(io),
      listener_(io, listener.release()),
      peer_uid_(std::move(peer_uid)),
      options_(std::move(options)),
      greeting_timer_(io),
      accept_timer_(io),
      core_(options_.limits.core),
      buffer_(kReadBytes) {}

void StoreLoop::start() { wait_for_connection(); }

void StoreLoop::renew() {
  while (!sessions_.empty()) close(*sessions_.begin()->second, "");
  core_ = StoreCore(options_.limits.core);
  publish();
}

StoreStats StoreLoop::stats() const {
  const std::lock_guard lock(published_mutex_);
  return published_;
}

// --- Accepting

void StoreLoop::wait_for_connection() {
  if (accepting_ || sessions_.size() >= options_.limits.connections) return;
  accepting_ = true;
  listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    accepting_ = false;
    if (!error) accept_ready();
  });
}

void StoreLoop::accept_ready() {
  for (int i = 0; i < kAcceptsPerTurn && sessions_.size() < options_.limits.connections; ++i) {
    if (!accept_one()) break;
  }
  publish();
  if (accept_timer_.expiry() <= std::chrono::steady_clock::now()) wait_for_connection();
}

// False: nothing more to accept now.
bool StoreLoop::accept_one() {
  UniqueFd fd(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) {
    admit(std::move(fd));
    return true;
  }
  switch (errno) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
      return true;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return out_of_descriptors(errno);
    default:
      return false;
  }
}

// Make room by closing a connection that has not even greeted; else leave the backlog alone for a moment, since a
// listener that stays readable would spin.
bool StoreLoop::out_of_descriptors(int error) {
  if (shed_silent("room needed for another connection")) return true;
  report(nullptr, system_error("cannot accept a connection", error).message);
  accept_timer_.expires_after(kAcceptRetry);
  accept_timer_.async_wait([this](const boost::system::error_code& aborted) {
    if (!aborted) wait_for_connection();
  });
  return false;
}

void StoreLoop::admit(UniqueFd fd) {
  ++counters_.connections_accepted;
  if (peer_uid_) {
    const Result<uid_t> uid = peer_uid_->lookup(fd.get());
    if (!uid || *uid != *options_.allowed_uid) {
      ++counters_.connections_refused;
      report(nullptr, uid ? fmt::format("refused a connection of user {}: only user {} may use this store", *uid,
                                        *options_.allowed_uid)
                          : "refused a connection: " + uid.error().message);
      return;
    }
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (silent_.size() >= options_.limits.silent_connections) shed_silent("too many connections without a greeting");

  auto session = std::make_shared<Session>(io_, std::move(fd), ++last_id_, options_.limits.wire);
  sessions_.emplace(session->id, session);
  session->deadline = std::chrono::steady_clock::now() + options_.limits.greeting;
  session->silent = silent_.insert(silent_.end(), session->id);
  arm_greeting_deadline();
  readable(session);  // its greeting has usually come with it
}

bool StoreLoop::shed_silent(const char* reason) {
  if (silent_.empty()) return false;
  close(*sessions_.at(silent_.front()), reason);
  return true;
}

void StoreLoop::arm_greeting_deadline() {
  if (greeting_timer_armed_ || silent_.empty()) return;
  greeting_timer_armed_ = true;
  greeting_timer_.expires_at(sessions_.at(silent_.front())->deadline);
  greeting_timer_.async_wait([this](const boost::system::error_code& aborted) {
    greeting_timer_armed_ = false;
    if (!aborted) greeting_deadline();
  });
}

void StoreLoop::greeting_deadline() {
  const auto now = std::chrono::steady_clock::now();
  while (!silent_.empty() && sessions_.at(silent_.front())->deadline <= now) shed_silent("no greeting in time");
  arm_greeting_deadline();
  publish();
}

// --- Serving

void StoreLoop::wait_readable(const SessionPtr& session) {
  if (session->waits_readable) return;
  session->waits_readable = true;
  session->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, session](const boost::system::error_code& error) {
                               session->waits_readable = false;
                               if (error || !session->open()) return;
                               readable(session);
                               publish();
                             });
}

void StoreLoop::readable(const SessionPtr& session) {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t size = ::recv(session->socket.native_handle(), buffer_.data(), buffer_.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size <= 0) return close(*session, "");
    if (!consume(session, {buffer_.data(), static_cast<std::size_t>(size)})) return;
    if (session->paused || static_cast<std::size_t>(size) < buffer_.size()) break;
  }
  if (!session->paused) wait_readable(session);
}

// Decode and carry out what has come. False: the connection has been closed.
bool StoreLoop::consume(const SessionPtr& session, std::string_view input) {
  const bool first = !std::exchange(session->heard, true);
  if (first && options_.adopt && input.front() == options_.adopt_byte) {
    hand_over(session, input);
    return false;
  }
  while (true) {
    const StoreDecoder::Status status = session->decoder.next(input);
    if (status == StoreDecoder::Status::need_more) break;
    if (status == StoreDecoder::Status::bad) {
      carry_out(session);
      if (session->open()) close(*session, session->decoder.error());
      return false;
    }
    if (session->silent) {
      silent_.erase(*session->silent);
      session->silent.reset();
    }
    ++counters_.requests;
    core_.apply(session->id, session->decoder.request(), actions_);
    if (!actions_.closes().empty() || actions_.size() > kBatchBytes) carry_out(session);
    if (!session->open()) return false;
  }
  carry_out(session);
  return session->open() && account(*session);
}

void StoreLoop::hand_over(const SessionPtr& session, std::string_view received) {
  UniqueFd socket(session->socket.release());
  close(*session, "");
  options_.adopt(std::move(socket), std::string(received));
}

void StoreLoop::carry_out(const SessionPtr& from) {
  for (std::size_t i = 0; i < actions_.send_count(); ++i) {
    if (actions_.send_to(i) == from->id) {
      send(*from, actions_.send_bytes(i));
      continue;
    }
    const auto found = sessions_.find(actions_.send_to(i));
    if (found == sessions_.end()) continue;
    const SessionPtr target = found->second;
    send(*target, actions_.send_bytes(i));
  }
  for (const auto& order : actions_.closes()) {
    const auto found = sessions_.find(order.connection);
    if (found == sessions_.end()) continue;
    const SessionPtr target = found->second;
    close(*target, order.reason);
  }
  actions_.clear();
}

void StoreLoop::send(Session& session, std::string_view bytes) {
  if (!session.open()) return;
  if (session.output.empty()) {
    const ssize_t sent = ::send(session.socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return close(session, "");
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (bytes.empty()) return;
  }
  session.output.append(bytes);
  if (session.unsent() > options_.limits.output_bytes) {
    return close(session,
                 fmt::format("client has left more than {} bytes of replies unread", options_.limits.output_bytes));
  }
  session.paused = session.paused || session.unsent() > kPauseBytes;
  if (!account(session)) return;
  wait_writable(sessions_.at(session.id));
}

void StoreLoop::wait_writable(const SessionPtr& session) {
  if (session->waits_writable) return;
  session->waits_writable = true;
  session->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                             [this, session](const boost::system::error_code& error) {
                               session->waits_writable = false;
                               if (error || !session->open()) return;
                               writable(session);
                               publish();
                             });
}

void StoreLoop::writable(const SessionPtr& session) {
  const ssize_t sent = ::send(session->socket.native_handle(), session->output.data() + session->output_sent,
                              session->unsent(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return close(*session, "");
  if (sent > 0) session->output_sent += static_cast<std::size_t>(sent);
  if (session->unsent() > 0) return wait_writable(session);
  std::string().swap(session->output);
  session->output_sent = 0;
  if (!account(*session) || !session->paused) return;
  session->paused = false;
  wait_readable(session);
}

// Bring the session's share of the buffers up to date. False: over the limit, and closed.
bool StoreLoop::account(Session& session) {
  const std::size_t now = session.output.capacity() + session.decoder.held_bytes();
  buffered_bytes_ += now - session.accounted;
  session.accounted = now;
  if (buffered_bytes_ <= options_.limits.buffer_bytes) return true;
  close(session,
        fmt::format("all connections together hold more than {} bytes of unfinished requests and unread replies",
                    options_.limits.buffer_bytes));
  return false;
}

// An empty reason: the client has left, which is no fault.
void StoreLoop::close(Session& session, std::string_view reason) {
  const SessionPtr alive = sessions_.at(session.id);
  if (!reason.empty()) {
    ++counters_.connections_refused;
    report(&session, reason);
  }
  core_.disconnect(session.id);
  buffered_bytes_ -= session.accounted;
  session.accounted = 0;
  if (session.silent) silent_.erase(*session.silent);
  session.silent.reset();
  boost::system::error_code ignored;
  session.socket.close(ignored);
  sessions_.erase(session.id);
  if (accept_timer_.expiry() <= std::chrono::steady_clock::now()) wait_for_connection();
}

void StoreLoop::report(const Session* session, std::string_view reason) {
  if (!options_.log) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - log_window_ > kLogWindow) {
    log_window_ = now;
    log_lines_ = 0;
  }
  if (++log_lines_ > kLogLines) return;
  std::string line = session == nullptr ? fmt::format("store: {}", reason)
                                        : fmt::format("store: closed connection {}: {}", session->id, reason);
  if (log_lines_ == kLogLines) line += " (further lines of these ten seconds are left out)";
  options_.log(line);
}

void StoreLoop::publish() {
  counters_.connections_open = sessions_.size();
  counters_.connections_waiting = core_.waiting_connections();
  counters_.keys = core_.key_count();
  counters_.bytes = core_.bytes();
  const std::lock_guard lock(published_mutex_);
  published_ = counters_;
}

}  // namespace dtrain
