#include "launcher/status_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "launcher/status_folder.h"
#include "launcher/status_report.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 8;
constexpr auto kNoDescriptors = std::chrono::seconds(1);

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

// The kernel keeps it for the reader; one that is too large is cut, and the reader says so.
void answer(int socket, const std::string& json) {
  const int room = 2 * int(kStatusBytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  ::send(socket, json.data(), json.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

std::unique_ptr<StatusSocket> StatusSocket::open(asio::io_context& io, Ask ask) {
  for (const std::string& folder : status_folders()) {
    std::string path;
    if (auto listener = listen_in_status_folder(folder, path))
      return std::unique_ptr<StatusSocket>(new StatusSocket(io, std::move(*listener), path, std::move(ask)));
  }
  return nullptr;
}

StatusSocket::StatusSocket(asio::io_context& io, UniqueFd listener, std::string path, Ask ask)
    : listener_(io, listener.release()), again_(io), path_(std::move(path)), ask_(std::move(ask)) {
  wait();
}

StatusSocket::~StatusSocket() { remove_status_socket(path_); }

void StatusSocket::wait() {
  listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (!ec) accept_ready();
  });
}

void StatusSocket::accept_ready() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    auto socket = std::make_shared<UniqueFd>(
        ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!*socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      // A listener that stays readable would spin.
      again_.expires_after(kNoDescriptors);
      again_.async_wait([this](const boost::system::error_code& ec) {
        if (!ec) wait();
      });
      return;
    }
    if (!*socket) break;
    if (same_user(socket->get())) ask_([socket](const std::string& json) { answer(socket->get(), json); });
  }
  wait();
}

}  // namespace dtrain::launcher
