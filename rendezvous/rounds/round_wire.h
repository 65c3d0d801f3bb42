#pragma once
// The bytes of the agent link. Pure. A connection begins, on both sides, with kRoundGreeting; its first byte is no
// opcode of TCPStore's first message, so one port can serve both protocols. Then frames: u32 size of what follows, u8
// number of the message's type in RoundMessage, its fields. Numbers are little-endian, strings are u32 size and bytes.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

// The last byte is the version of the protocol.
inline constexpr std::string_view kRoundGreeting =
    "\xD7"
    "dround\x0a";
inline constexpr std::size_t kRoundFrameBytes = 16384;  // of a frame, its size word not counted
inline constexpr std::size_t kRoundTextBytes = 2048;    // of a string

// The frame of one message. Longer strings are cut at kRoundTextBytes.
std::string encode(const RoundMessage& message);

// Decodes one connection's bytes, however they are cut. Holds at most one frame.
class RoundDecoder {
 public:
  enum class Status {
    need_more,
    message,  // message() is new; call next() again
    bad,      // error() says why; close the connection
  };

  // Append bytes.
  void feed(std::string_view bytes) { held_.append(bytes); }
  Status next();
  const RoundMessage& message() const { return message_; }
  const std::string& error() const { return error_; }
  bool greeted() const { return greeted_; }
  std::size_t held_bytes() const { return held_.size(); }

 private:
  Status fail(std::string why);
  std::optional<Status> greeting();

  std::string held_;
  std::size_t used_ = 0;  // the front of held_, decoded
  RoundMessage message_;
  std::string error_;
  bool greeted_ = false;
};

}  // namespace dtrain
