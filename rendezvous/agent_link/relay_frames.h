#pragma once
// The frames of an `engine` link: the standard input and output of an agent that an engine has started on a node, on
// their way from and to whoever has submitted the job. At the agent's end there is a relay (launcher/submit/relay.h).
// Pure.
//
//   octet   what it is (RelayFrame::What)
//   octets  4: how many bytes follow, big-endian; at most kRelayFrameBytes
//
// The relay sends out, err and, last of all, ended; the submitter sends in.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain {

inline constexpr std::size_t kRelayFrameBytes = std::size_t{64} << 10;
inline constexpr std::size_t kRelayHeadBytes = 5;
// The agent has stopped its workers because the engine has gone that had started it.
inline constexpr int kRelayLost = 256;
// The agent has been killed, and whatever has started it lives.
inline constexpr int kRelayDied = 257;

struct RelayFrame {
  enum class What : std::uint8_t {
    out = 1,    // bytes of the agent's standard output
    err = 2,    // and of its standard error
    ended = 3,  // its exit code, or minus the signal that has killed it, or kRelayLost or kRelayDied, in decimal digits
    in = 4,     // bytes for its standard input, which ends with the link
  } what = What::out;
  std::string_view bytes{};
  bool operator==(const RelayFrame&) const = default;
};

// As many frames as the bytes need; one for none.
std::string relay_frames(RelayFrame::What what, std::string_view bytes);
// What `ended` says. Nothing: it makes no sense.
std::optional<int> relay_status(std::string_view bytes);

class RelayDecoder {
 public:
  void feed(std::string_view bytes);
  // The next frame, valid until the next call; nothing: more is needed. Error, from then on: this is no such link.
  Result<std::optional<RelayFrame>> next();

 private:
  std::string held_{};
  std::size_t used_ = 0;
};

}  // namespace dtrain
