#include "launcher/front/front_message.h"

#include <sys/socket.h>

namespace dtrain::launcher {

void send_to(int socket, const FrontMessage& message) {
  ::send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::optional<FrontMessage> receive_from(int socket) {
  FrontMessage message;
  const ssize_t n = ::recv(socket, &message, sizeof message, MSG_DONTWAIT);
  if (n != ssize_t(sizeof message)) return std::nullopt;
  return message;
}

}  // namespace dtrain::launcher
