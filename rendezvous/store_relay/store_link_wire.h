#pragma once
// The bytes of the store link, over which a node's agent forwards its workers' requests to the node that has the store.
// Pure. Both sides begin with kStoreLinkGreeting; its first byte is neither TCPStore's nor the agent link's. Then
// frames: u32 size of the payload, u8 type, u64 number, payload; little-endian.
//
//   edge -> host   hello      number: the round this link is for
//   host -> edge   welcome    number: the same; the link is up
//                  refused    payload: why; the host takes nothing more from this link
//   edge -> host   open       number: a connection that has greeted; the edge chooses it and never uses it twice
//   both           data       number: the connection; payload: its next bytes, requests or replies, cut anywhere
//   both           closed     number: the connection; payload: why, empty if it was left. Frames of it that are still
//                             under way are ignored
//   host -> edge   again      number: a connection; its next bytes are those of the data frame before, once more
//
// Requests are not taken apart for the way: an edge passes on bytes, so a worker cannot tell the host's store from one
// of its own node.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

// The last byte is the version of the protocol.
inline constexpr std::string_view kStoreLinkGreeting =
    "\xD8"
    "dstore\x02";
inline constexpr std::size_t kStoreLinkHeaderBytes = 13;
inline constexpr std::size_t kStoreLinkDataBytes = std::size_t{1} << 20;  // payload of one data frame
inline constexpr std::size_t kStoreLinkTextBytes = 1024;                  // payload of the others
// What `again` may stand for: an edge keeps no more, and less is not worth it.
inline constexpr std::size_t kStoreLinkAgainLeast = 64;
inline constexpr std::size_t kStoreLinkAgainMost = std::size_t{64} << 10;

enum class StoreLinkType : std::uint8_t { hello = 1, welcome, refused, open, data, closed, again };

struct StoreLinkFrame {
  StoreLinkType type = StoreLinkType::hello;
  std::uint64_t number = 0;
  // Of data frames: a piece of it, as it came; never empty.
  std::string_view payload;
};

// Append a frame. Longer texts are cut at kStoreLinkTextBytes; more data than fits into a frame becomes several.
void put_store_link_frame(std::string& out, StoreLinkType type, std::uint64_t number, std::string_view payload = {});

// Decodes one side's bytes, however they are cut. Holds at most a header and a text, and at an edge the last payload.
class StoreLinkDecoder {
 public:
  // `edge`: what the host says; `again` is given out as the data frame that it stands for.
  explicit StoreLinkDecoder(bool edge = false) : edge_(edge) {}

  enum class Status {
    need_more,  // all input is used
    frame,      // frame() is new; call next() again with the rest of the input
    bad,        // error() says why; close the link
  };

  // Consume bytes from the front of `input`. A data frame's payload points into it.
  Status next(std::string_view& input);
  const StoreLinkFrame& frame() const { return frame_; }
  // frame() is the last piece of its frame.
  bool complete() const { return left_ == 0; }
  const std::string& error() const { return error_; }

 private:
  bool greeting(std::string_view& input);
  bool header(std::string_view& input);
  Status repeat();
  Status fail(std::string why);

  const bool edge_;
  StoreLinkFrame frame_;
  std::string error_;
  std::size_t greeted_ = 0;
  std::array<char, kStoreLinkHeaderBytes> header_{};
  std::size_t header_have_ = 0;
  std::size_t left_ = 0;  // of the payload
  std::string text_;
  std::string last_;  // payload of the last data frame; at an edge, and only if it is short enough
};

}  // namespace dtrain
