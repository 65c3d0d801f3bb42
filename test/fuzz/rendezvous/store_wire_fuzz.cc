// Fuzzes the store's decoder: any bytes, cut at any places, give the same requests and the same fault as the whole, and
// memory stays bounded by what has arrived. The first byte of the input seeds the cuts.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/store/store_wire.h"
#include "test/fuzz/pieces.h"

namespace {

using dtrain::StoreDecoder;
using dtrain::StoreRequest;

struct Decoded {
  std::vector<std::string> requests;
  std::string error;
  bool operator==(const Decoded&) const = default;
};

dtrain::StoreWireLimits limits() {
  dtrain::StoreWireLimits small;
  small.key_bytes = 64;
  small.value_bytes = 256;
  small.keys_per_request = 16;
  small.request_bytes = 1024;
  return small;
}

std::string describe(const StoreRequest& request) {
  std::string out = std::to_string(static_cast<int>(request.op)) + "/" + std::to_string(request.word) + "/" +
                    std::to_string(request.number);
  for (std::size_t i = 0; i < request.field_count(); ++i) {
    out += "/" + std::to_string(request.field(i).size()) + ":" + std::string(request.field(i));
  }
  return out;
}

bool feed(StoreDecoder& decoder, std::string_view piece, Decoded& decoded) {
  auto status = decoder.next(piece);
  for (; status == StoreDecoder::Status::request; status = decoder.next(piece)) {
    decoded.requests.push_back(describe(decoder.request()));
  }
  decoded.error = decoder.error();
  DT_CHECK(status == StoreDecoder::Status::bad || piece.empty(), "a decoder that wants more has used what it had");
  DT_CHECK(decoder.held_bytes() <= 65536, "memory is bounded by the limits");
  return status != StoreDecoder::Status::bad;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint32_t seed = data[0];
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);

  Decoded whole;
  StoreDecoder at_once(limits());
  feed(at_once, stream, whole);

  Decoded cut;
  StoreDecoder cutting(limits());
  dtrain::in_pieces(stream, seed, [&](std::string_view piece) { return feed(cutting, piece, cut); });
  DT_CHECK(cut == whole, "cuts change nothing");
  return 0;
}
