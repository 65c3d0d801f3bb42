#include "rendezvous/agent_link/round_channel.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

void RoundChannel::start(Callbacks callbacks, std::string_view received) {
  callbacks_ = std::move(callbacks);
  decoder_.feed(received);
  put(kRoundGreeting);
  asio::post(executor(), [this, self = shared_from_this()] {
    if (open() && decode()) resume();
  });
}

void RoundChannel::send(const RoundMessage& message) {
  if (open()) put(encode(message));
}

void RoundChannel::put(std::string_view bytes) {
  write(bytes);
  if (full()) fail_soon("it does not read what it is sent");
}

void RoundChannel::read_waiting() {
  constexpr int kReads = 64;  // then it is not silent
  read_all(kReads);
}

void RoundChannel::received(std::string_view bytes) {
  decoder_.feed(bytes);
  decode();
}

// False: closed.
bool RoundChannel::decode() {
  for (;;) {
    switch (decoder_.next()) {
      case RoundDecoder::Status::need_more:
        return true;
      case RoundDecoder::Status::bad:
        fail(decoder_.error());
        return false;
      case RoundDecoder::Status::message: {
        const RoundMessage message = decoder_.message();
        callbacks_.message(message);
        if (!open()) return false;
        break;
      }
    }
  }
}

// However a peer has gone, it has closed the connection: a reset says only that it did not read what it was sent.
void RoundChannel::closed(LinkBytes::Status how, const std::string& reason) {
  callbacks_.closed(how == LinkBytes::Status::ended ? "" : reason);
}

}  // namespace dtrain
