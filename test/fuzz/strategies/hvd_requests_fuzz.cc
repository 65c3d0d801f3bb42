// Fuzzes what ranks tell each other of the tensors they want reduced: it is refused, or it is written and read again
// unchanged, and can be told to people.
#include <cstdint>
#include <exception>

#include "rendezvous/base/check.h"
#include "strategies/horovod/request_wire.h"

using namespace dtrain::hvd;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<Asked> asked;
  try {
    asked = parse_requests(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const std::exception&) {
    return 0;
  }
  const auto again = parse_requests(serialize(asked));
  DT_CHECK(again.size() == asked.size(), "what was read can be written");
  for (std::size_t i = 0; i < asked.size(); ++i) {
    DT_CHECK(again[i].request == asked[i].request && again[i].waited == asked[i].waited, "and is the same");
    DT_CHECK(!describe(asked[i].request).empty(), "and can be told");
  }
  return 0;
}
