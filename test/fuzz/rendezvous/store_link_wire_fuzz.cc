// Fuzzes the store link's decoder: any bytes, cut at any places, give the same frames and the same fault as the whole;
// what it gives, put into frames again, is read back as the same. The first byte of the input seeds the cuts; half of
// the seeds put a right greeting in front.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/store_relay/store_link_wire.h"
#include "test/fuzz/pieces.h"

namespace {

using dtrain::StoreLinkDecoder;
using dtrain::StoreLinkType;

struct Decoded {
  std::string frames;  // put again, data frames byte by byte
  std::string error;
  bool operator==(const Decoded&) const = default;
};

bool feed(StoreLinkDecoder& decoder, std::string_view piece, Decoded& decoded) {
  auto status = decoder.next(piece);
  for (; status == StoreLinkDecoder::Status::frame; status = decoder.next(piece)) {
    const auto& frame = decoder.frame();
    const bool data = frame.type == StoreLinkType::data;
    DT_CHECK(!data || !frame.payload.empty(), "data has bytes");
    DT_CHECK(data || frame.payload.size() <= dtrain::kStoreLinkTextBytes, "texts are bounded");
    const std::size_t step = data ? 1 : frame.payload.size() + 1;
    std::size_t at = 0;
    do {
      dtrain::put_store_link_frame(decoded.frames, frame.type, frame.number, frame.payload.substr(at, step));
      at += step;
    } while (at < frame.payload.size());
  }
  decoded.error = decoder.error();
  DT_CHECK(status == StoreLinkDecoder::Status::bad || piece.empty(), "a decoder that wants more has used what it had");
  return status != StoreLinkDecoder::Status::bad;
}

// 0: in one piece.
Decoded decode(std::string_view stream, std::uint32_t cuts, bool edge) {
  Decoded decoded;
  StoreLinkDecoder decoder(edge);
  if (cuts == 0) {
    feed(decoder, stream, decoded);
  } else {
    dtrain::in_pieces(stream, cuts, [&](std::string_view piece) { return feed(decoder, piece, decoded); });
  }
  return decoded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string stream((data[0] & 1) != 0 ? dtrain::kStoreLinkGreeting : std::string_view());
  stream.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool edge = (data[0] & 2) != 0;
  const Decoded whole = decode(stream, 0, edge);
  DT_CHECK(decode(stream, 1U + data[0], edge) == whole, "cuts change nothing");
  const Decoded again = decode(std::string(dtrain::kStoreLinkGreeting) + whole.frames, 0, edge);
  DT_CHECK(again.frames == whole.frames && again.error.empty(), "frames survive another way");
  return 0;
}
