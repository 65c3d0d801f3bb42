// Reads, answers and closes connections; what the bytes mean is the backend's business. Accepting is in
// store_accept.cc.
#include "rendezvous/store_loop.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBytes = std::size_t{128} << 10;
// A connection that sends without pause lets the others have their turn after this many reads.
constexpr int kReadsPerTurn = 8;
// A client that does not read its replies is not read from either.
constexpr std::size_t kPauseBytes = std::size_t{1} << 20;

}  // namespace

StoreLoop::StoreLoop(asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
                     const StoreHost::Options& options, StoreBackend& backend)
    : io_(io),
      listener_(io),
      peer_uid_(std::move(peer_uid)),
      options_(options),
      backend_(backend),
      greeting_timer_(io),
      accept_timer_(io),
      buffer_(listener ? kReadBytes : 0) {
  if (listener) listener_.assign(listener.release());
}

void StoreLoop::start(StoreOutlet* elsewhere) {
  elsewhere_ = elsewhere;
  wait_for_connection();
}

void StoreLoop::close_all() {
  while (!sessions_.empty()) close(*sessions_.begin()->second, "");
  stalled_.clear();
}

void StoreLoop::resume() {
  for (const ConnectionId id : std::exchange(stalled_, {})) {
    const auto found = sessions_.find(id);
    if (found != sessions_.end()) wait_readable(found->second);
  }
}

StoreStats StoreLoop::stats() const {
  const std::lock_guard lock(published_mutex_);
  return published_;
}

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
    std::size_t room = buffer_.size();
    if (!backend_.ready()) {
      if (!session->greeting) return stalled_.push_back(session->id);
      room = 1;  // the greeting and not a byte of what follows
    }
    const ssize_t size = ::recv(session->socket.native_handle(), buffer_.data(), room, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size <= 0) return close(*session, "");
    if (!consume(session, {buffer_.data(), static_cast<std::size_t>(size)})) return;
    if (session->paused || static_cast<std::size_t>(size) < room) break;
  }
  if (!session->paused) wait_readable(session);
}

// Carry out what has come. False: the connection has been closed.
bool StoreLoop::consume(const SessionPtr& session, std::string_view input) {
  const bool first = !std::exchange(session->heard, true);
  if (first && options_.adopt && input.front() == options_.adopt_byte) {
    hand_over(session, input);
    return false;
  }
  if (session->greeting && !greet(session, input)) return session->open();
  while (!input.empty()) {
    backend_.receive(session->id, input, actions_);
    carry_out(actions_, session);
    if (!session->open()) return false;
  }
  return account(*session);
}

// True: the greeting is complete, and taken from the front of the input.
bool StoreLoop::greet(const SessionPtr& session, std::string_view& input) {
  const StoreDecoder::Status status = session->greeting->next(input);
  if (status == StoreDecoder::Status::bad) close(*session, std::string(session->greeting->error()));
  if (status != StoreDecoder::Status::request) return false;
  session->greeting.reset();
  silent_.erase(*session->silent);
  session->silent.reset();
  backend_.connect(session->id);
  return true;
}

void StoreLoop::hand_over(const SessionPtr& session, std::string_view received) {
  UniqueFd socket(session->socket.release());
  close(*session, "");
  options_.adopt(std::move(socket), std::string(received));
}

void StoreLoop::carry_out(StoreActions& actions) { carry_out(actions, nullptr); }

// `from`: where most replies go.
void StoreLoop::carry_out(StoreActions& actions, const SessionPtr& from) {
  for (std::size_t i = 0; i < actions.send_count(); ++i) {
    if (from && actions.send_to(i) == from->id) {
      send(*from, actions.send_bytes(i));
    } else {
      reply(actions.send_to(i), actions.send_bytes(i));
    }
  }
  for (const auto& order : actions.closes()) end(order.connection, order.reason);
  actions.clear();
}

void StoreLoop::reply(ConnectionId connection, std::string_view bytes) {
  if ((connection & kBehindLink) != 0) return elsewhere_->send(connection, bytes);
  const auto found = sessions_.find(connection);
  if (found == sessions_.end()) return;
  const SessionPtr target = found->second;
  send(*target, bytes);
}

void StoreLoop::end(ConnectionId connection, std::string_view reason) {
  if ((connection & kBehindLink) != 0) return elsewhere_->close(connection, reason);
  const auto found = sessions_.find(connection);
  if (found != sessions_.end()) close(*found->second, reason);
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
  if (session.output.size() > options_.limits.output_bytes) {
    return close(session,
                 fmt::format("client has left more than {} bytes of replies unread", options_.limits.output_bytes));
  }
  session.paused = session.paused || session.output.size() > kPauseBytes;
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
  const std::string_view bytes = session->output.front();
  const ssize_t sent = ::send(session->socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return close(*session, "");
  if (sent > 0) session->output.take(static_cast<std::size_t>(sent));
  if (!session->output.empty()) return wait_writable(session);
  if (!account(*session) || !session->paused) return;
  session->paused = false;
  wait_readable(session);
}

// Bring the session's share of the buffers up to date. False: over the limit, and closed.
bool StoreLoop::account(Session& session) {
  const std::size_t now = session.output.memory() + backend_.held_bytes(session.id);
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
    report(fmt::format("closed connection {}: {}", session.id, reason));
  }
  backend_.disconnect(session.id);
  buffered_bytes_ -= session.accounted;
  session.accounted = 0;
  if (session.silent) silent_.erase(*session.silent);
  session.silent.reset();
  boost::system::error_code ignored;
  session.socket.close(ignored);
  sessions_.erase(session.id);
  if (options_.forgets && sessions_.empty()) asio::post(io_, [this] { forget_if_alone(); });
  if (accept_timer_.expiry() <= std::chrono::steady_clock::now()) wait_for_connection();
}

// Not while a request is carried out.
void StoreLoop::forget_if_alone() {
  if (!sessions_.empty()) return;
  backend_.renew();
  publish();
}

void StoreLoop::report(std::string_view text) {
  if (!options_.log) return;
  const auto line = reports_.admit(fmt::format("store: {}", text), std::chrono::steady_clock::now());
  if (line) options_.log(*line);
}

void StoreLoop::publish() {
  counters_.connections_open = sessions_.size();
  backend_.describe(counters_);
  if (elsewhere_ != nullptr) elsewhere_->describe(counters_);
  const std::lock_guard lock(published_mutex_);
  published_ = counters_;
}

}  // namespace dtrain
