#include "launcher/status/status_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "launcher/status/status_folder.h"
#include "launcher/status/status_report.h"
#include "rendezvous/net/overflow_uid.h"
#include "rendezvous/net/watch.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 8;
constexpr auto kTryAgain = std::chrono::seconds(1);

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) return false;
  return uid_of_anybody() != peer.uid || may_look_into(peer.pid);
}

// The kernel keeps it for the reader; one that is too large is cut, and the reader says so.
void answer(int socket, const std::string& json) {
  const int room = 2 * int(kStatusBytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  ::send(socket, json.data(), json.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

std::unique_ptr<StatusSocket> StatusSocket::open(asio::io_context& io, Ask ask) {
  const auto listen = [&](const std::string& folder) -> std::unique_ptr<StatusSocket> {
    std::string path;
    auto listener = listen_in_status_folder(folder, path);
    if (!listener) return nullptr;
    if (auto watched = watch_on(io, std::move(*listener)))
      return std::unique_ptr<StatusSocket>(new StatusSocket(io, std::move(*watched), path, ask));
    remove_status_socket(path);
    return nullptr;
  };
  for (const std::string& folder : status_folders())
    if (auto socket = listen(folder)) return socket;
  // Somebody else has the usual one. For want of descriptors no other folder would help.
  if (check_status_folder(status_folders().front())) return nullptr;
  const auto made = new_status_folder();
  auto socket = made ? listen(*made) : nullptr;
  if (made && !socket) ::rmdir(made->c_str());
  return socket;
}

StatusSocket::StatusSocket(asio::io_context& io, asio::posix::stream_descriptor listener, std::string path, Ask ask)
    : path_(std::move(path)),
      ask_(std::move(ask)),
      acceptor_(io, std::move(listener),
                {.most_a_turn = kAcceptsPerTurn, .try_again = kTryAgain, .accepted = [this](UniqueFd socket) {
                   accepted(std::move(socket));
                 }}) {
  acceptor_.resume();
}

StatusSocket::~StatusSocket() { remove_status_socket(path_); }

void StatusSocket::accepted(UniqueFd socket) {
  if (!same_user(socket.get())) return;
  ask_([kept = std::make_shared<UniqueFd>(std::move(socket))](const std::string& json) { answer(kept->get(), json); });
}

}  // namespace dtrain::launcher
