// The accepting half of StoreLoop: who is let in, and how long one may be silent.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "rendezvous/store_loop.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptRetry{100};

}  // namespace

void StoreLoop::wait_for_connection() {
  if (!listener_.is_open() || accepting_ || sessions_.size() >= options_.limits.connections) return;
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
  report(system_error("cannot accept a connection", error).message);
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
      return report(uid ? fmt::format("refused a connection of user {}: only user {} may use this store", *uid,
                                      *options_.allowed_uid)
                        : "refused a connection: " + uid.error().message);
    }
  }
  let_in(std::move(fd));
}

void StoreLoop::adopt(UniqueFd fd) {
  ++counters_.connections_accepted;
  if (sessions_.size() < options_.limits.connections) return let_in(std::move(fd));
  ++counters_.connections_refused;
  report("refused a connection: there are too many");
}

void StoreLoop::let_in(UniqueFd fd) {
  if (const std::string_view why = backend_.closed_because(); !why.empty()) {
    ++counters_.connections_refused;
    return report(fmt::format("refused a connection: {}", why));
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

}  // namespace dtrain
