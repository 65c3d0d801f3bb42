// Fuzzes what a stranger may send to the port of a job that gives its secret by MUNGE, and what a stranger may answer.
// The first byte says into how many pieces the rest is cut.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rendezvous/munge/munge_exchange.h"

using namespace dtrain;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Once refused, always refused; and only the request itself is one.
void ask(std::string_view bytes) {
  bool refused = false;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto begun = bytes.substr(0, size);
    const MungeAsked asked = asked_for_munge(begun);
    require((asked == MungeAsked::yes) == (begun == munge_request()));
    require(asked != MungeAsked::more || size < munge_request().size());
    require(!refused || asked == MungeAsked::no);
    refused = asked == MungeAsked::no;
  }
}

// However it is cut, it is a credential or not.
Result<std::string> answer(std::string_view bytes, std::size_t piece) {
  MungeAnswer answer;
  bool refused = false;
  while (!bytes.empty()) {
    const auto now = bytes.substr(0, std::min(piece, bytes.size()));
    bytes.remove_prefix(now.size());
    const bool added = answer.add(now).ok();
    require(!refused || !added);
    refused = !added;
  }
  auto whole = answer.credential();
  require(!refused || !whole.ok());
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  ask(bytes.substr(0, 64));
  auto whole = answer(bytes, bytes.size() + 1);
  auto pieces = answer(bytes, 1u + data[0]);
  require(whole.ok() == pieces.ok());
  if (whole.ok())
    require(*whole == bytes && bytes.size() <= kLongestCredential && bytes.starts_with("MUNGE:"));
  else
    require(whole.error().message.find('\n') == std::string::npos);
  return 0;
}
