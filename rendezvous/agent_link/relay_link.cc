#include "rendezvous/agent_link/relay_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {

// A host that is gone says nothing. 15 s and three questions later the connection breaks; a process that is only
// stopped has a kernel that answers.
void ask_when_silent(int fd) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

RelayLink::RelayLink(asio::io_context& io, LinkSocket socket) : LinkStream(io, std::move(socket), kLimits) {
  ask_when_silent(fd());
}

void RelayLink::start(Callbacks callbacks, std::string_view received) {
  callbacks_ = std::move(callbacks);
  decoder_.feed(received);
  write({});  // TLS's first words
}

void RelayLink::send(RelayFrame::What what, std::string_view bytes) {
  if (open()) hand_over(relay_frames(what, bytes));
}

void RelayLink::go_on() {
  paused_ = false;
  asio::post(executor(), [this, self = shared_from_this()] {
    if (open() && !paused_ && decode()) resume();
  });
}

void RelayLink::received(std::string_view bytes) {
  decoder_.feed(bytes);
  decode();
}

// False: read no more for now.
bool RelayLink::decode() {
  while (open() && !paused_) {
    const auto frame = decoder_.next();
    if (!frame) {
      fail_soon(frame.error().message);
      paused_ = true;
      return false;
    }
    if (!*frame) return true;
    if (!callbacks_.frame(**frame)) paused_ = true;
  }
  return false;
}

void RelayLink::closed(LinkBytes::Status how, const std::string& reason) {
  for (auto left = decoder_.next(); left && *left; left = decoder_.next()) callbacks_.frame(**left);
  callbacks_.closed(how == LinkBytes::Status::ended ? "" : reason);
}

}  // namespace dtrain
