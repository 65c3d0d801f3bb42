// Fuzzes the store's core with sequences of requests and lost connections: no crash, every index consistent, memory
// within the quota, only known connections answered. Each step of the input is a byte
// for the connection (or its loss), and then one message in the wire format without greeting.
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/store/store_core.h"

namespace {

using dtrain::StoreActions;
using dtrain::StoreCore;
using dtrain::StoreDecoder;

constexpr unsigned kConnections = 8;
constexpr std::size_t kQuota = 16384;

void check_actions(const StoreActions& actions) {
  for (std::size_t i = 0; i < actions.send_count(); ++i) {
    DT_CHECK(actions.send_to(i) < kConnections, "bytes go to connections that exist");
    DT_CHECK(!actions.send_bytes(i).empty(), "no empty sends");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  StoreCore core({.keys = 24, .bytes = kQuota, .reply_bytes = 4096});
  StoreDecoder decoder({.key_bytes = 64, .value_bytes = 4096, .keys_per_request = 16, .request_bytes = 8192});
  std::string greeting(1, '\0');
  dtrain::put_store_u32(greeting, dtrain::kStoreMagic);
  std::string_view hello = greeting;
  DT_CHECK(decoder.next(hello) == StoreDecoder::Status::request, "the greeting is good");

  std::string_view input(reinterpret_cast<const char*>(data), size);
  StoreActions actions;
  while (!input.empty()) {
    const auto selector = static_cast<unsigned char>(input.front());
    const dtrain::ConnectionId connection = selector % kConnections;
    input.remove_prefix(1);
    if (selector >= 0xf0) {
      core.disconnect(connection);
    } else {
      if (decoder.next(input) != StoreDecoder::Status::request) break;
      actions.clear();
      core.apply(connection, decoder.request(), actions);
      check_actions(actions);
    }
    DT_CHECK(core.consistent(), "every index agrees with every other");
    DT_CHECK(core.bytes() <= kQuota && core.key_count() <= 24, "limits hold");
    DT_CHECK(core.waiting_connections() <= kConnections, "one wait a connection");
  }
  for (unsigned connection = 0; connection < kConnections; ++connection) core.disconnect(connection);
  DT_CHECK(core.waiting_connections() == 0 && core.consistent(), "nobody is left waiting");
  return 0;
}
