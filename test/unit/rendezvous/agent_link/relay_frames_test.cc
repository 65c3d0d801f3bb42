// An agent's input and output, in frames.
#include "rendezvous/agent_link/relay_frames.h"

#include "test/support/catch.h"

using namespace dtrain;
using What = RelayFrame::What;

namespace {

struct Kept {
  What what;
  std::string bytes;
  bool operator==(const Kept&) const = default;
};

// What a decoder makes of a text that comes in pieces of this size.
std::vector<Kept> decoded(const std::string& text, std::size_t piece) {
  RelayDecoder decoder;
  std::vector<Kept> kept;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    decoder.feed(std::string_view(text).substr(at, piece));
    for (;;) {
      const auto frame = decoder.next();
      REQUIRE(frame.ok());
      if (!*frame) break;
      kept.push_back({(*frame)->what, std::string((*frame)->bytes)});
    }
  }
  return kept;
}

std::string error_of(const std::string& text) {
  RelayDecoder decoder;
  decoder.feed(text);
  for (;;) {
    const auto frame = decoder.next();
    if (!frame) return frame.error().message;
    if (!*frame) return "more is needed";
  }
}

}  // namespace

TEST_CASE("frames come through however a link cuts them") {
  const std::string text = relay_frames(What::out, "one\n") + relay_frames(What::err, std::string("\0two", 4)) +
                           relay_frames(What::in, "") + relay_frames(What::ended, "-9");
  const std::vector<Kept> all{
      {What::out, "one\n"}, {What::err, std::string("\0two", 4)}, {What::in, ""}, {What::ended, "-9"}};
  for (const std::size_t piece : {1, 2, 5, 7, 1000}) CHECK(decoded(text, piece) == all);
}

TEST_CASE("long bytes are several frames") {
  const std::string bytes(3 * kRelayFrameBytes + 1, 'x');
  const auto kept = decoded(relay_frames(What::in, bytes), 1000);
  REQUIRE(kept.size() == 4);
  std::string joined;
  for (const Kept& each : kept) joined += each.bytes;
  CHECK(joined == bytes);
}

TEST_CASE("what is no frame is an error") {
  CHECK(error_of(std::string("\0", 1)).find("does not speak") != std::string::npos);
  CHECK(error_of("\x06").find("does not speak") != std::string::npos);
  CHECK(error_of(std::string("\x01\x00\x01\x00\x01", 5)).find("longer frames") != std::string::npos);
  CHECK(error_of(std::string("\x01\x00\x01\x00\x00", 5)) == "more is needed");
  RelayDecoder decoder;
  decoder.feed("\xff");
  CHECK_FALSE(decoder.next().ok());
  decoder.feed(relay_frames(What::out, "x"));
  CHECK_FALSE(decoder.next().ok());
}

TEST_CASE("how an agent has ended is a number") {
  CHECK(relay_status("0") == 0);
  CHECK(relay_status("255") == 255);
  CHECK(relay_status("-9") == -9);
  for (const int status : {kRelayLost, kRelayDied}) CHECK(relay_status(std::to_string(status)) == status);
  for (const char* text : {"", "x", "1x", " 1", "258", "-65", "99999999999"}) CHECK_FALSE(relay_status(text));
}
