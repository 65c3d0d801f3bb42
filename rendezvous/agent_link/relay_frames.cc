#include "rendezvous/agent_link/relay_frames.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace dtrain {
namespace {

void append_frame(std::string& text, RelayFrame::What what, std::string_view bytes) {
  text.push_back(static_cast<char>(what));
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  text.append(bytes);
}

}  // namespace

std::string relay_frames(RelayFrame::What what, std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + kRelayHeadBytes * (bytes.size() / kRelayFrameBytes + 1));
  do {
    const std::string_view piece = bytes.substr(0, kRelayFrameBytes);
    append_frame(text, what, piece);
    bytes.remove_prefix(piece.size());
  } while (!bytes.empty());
  return text;
}

std::optional<int> relay_status(std::string_view bytes) {
  int status = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), status);
  if (error != std::errc() || end != bytes.data() + bytes.size() || status < -64 || status > kRelayDied)
    return std::nullopt;
  return status;
}

void RelayDecoder::feed(std::string_view bytes) {
  held_.erase(0, std::exchange(used_, 0));
  held_.append(bytes);
}

Result<std::optional<RelayFrame>> RelayDecoder::next() {
  const std::string_view rest = std::string_view(held_).substr(used_);
  if (rest.empty()) return std::optional<RelayFrame>();
  const auto what = static_cast<RelayFrame::What>(rest[0]);
  if (what < RelayFrame::What::out || what > RelayFrame::What::in)
    return Error{ErrorKind::system, "the peer does not speak as an agent's relay does"};
  if (rest.size() < kRelayHeadBytes) return std::optional<RelayFrame>();
  std::size_t size = 0;
  for (std::size_t i = 1; i < kRelayHeadBytes; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
  if (size > kRelayFrameBytes) return Error{ErrorKind::system, "the peer sends longer frames than an agent's relay"};
  if (rest.size() < kRelayHeadBytes + size) return std::optional<RelayFrame>();
  used_ += kRelayHeadBytes + size;
  return std::optional(RelayFrame{what, rest.substr(kRelayHeadBytes, size)});
}

}  // namespace dtrain
