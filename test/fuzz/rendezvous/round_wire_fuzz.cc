// Fuzzes the agent link's decoder: any bytes, cut at any places, give the same messages and the same fault as the
// whole; what it takes for a message is written and read again unchanged. The first byte of the input seeds the cuts.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/rounds/round_wire.h"
#include "test/fuzz/pieces.h"

namespace {

using dtrain::RoundDecoder;
using dtrain::RoundMessage;

struct Decoded {
  std::vector<RoundMessage> messages;
  std::string error;
  bool operator==(const Decoded&) const = default;
};

bool feed(RoundDecoder& decoder, std::string_view piece, Decoded& decoded) {
  decoder.feed(piece);
  auto status = decoder.next();
  for (; status == RoundDecoder::Status::message; status = decoder.next())
    decoded.messages.push_back(decoder.message());
  decoded.error = decoder.error();
  DT_CHECK(decoder.held_bytes() <= dtrain::kRoundFrameBytes + 4 + dtrain::kRoundGreeting.size(), "one frame is held");
  return status != RoundDecoder::Status::bad;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint32_t seed = data[0];
  // Most of what libFuzzer makes would never get past the greeting.
  std::string stream(seed % 4 == 0 ? "" : dtrain::kRoundGreeting);
  stream.append(reinterpret_cast<const char*>(data) + 1, size - 1);

  Decoded whole;
  RoundDecoder at_once;
  feed(at_once, stream, whole);
  Decoded cut;
  RoundDecoder cutting;
  dtrain::in_pieces(stream, seed, [&](std::string_view piece) { return feed(cutting, piece, cut); });
  DT_CHECK(cut == whole, "cuts change nothing");

  std::string again(dtrain::kRoundGreeting);
  for (const RoundMessage& m : whole.messages) again += dtrain::encode(m);
  Decoded second;
  RoundDecoder decoder;
  feed(decoder, again, second);
  DT_CHECK(second.messages == whole.messages && second.error.empty(), "what was read can be written");
  return 0;
}
