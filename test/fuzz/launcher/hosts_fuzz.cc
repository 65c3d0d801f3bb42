// Fuzzes lists of hosts, and what an engine and an agent say to each other. The first byte chooses; a placement of
// three hosts gets each line from the host that its first byte names.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/engine_wire/agent_wire.h"
#include "launcher/engine_wire/shim_wire.h"
#include "launcher/engines/hostfile.h"
#include "launcher/engines/placement.h"
#include "rendezvous/agent_link/relay_frames.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Error& error) { require(!error.message.empty() && error.message.find('\n') == std::string::npos); }

void check(const Result<std::vector<PlacedHost>>& hosts) {
  if (!hosts) return check(hosts.error());
  require(!hosts->empty());
  for (const PlacedHost& host : *hosts) {
    require(!host.name.empty() && host.name[0] != '-' && host.slots >= 0);
    for (const int slot : host.chosen) require(slot >= 0 && slot < std::max(1, host.slots));
  }
}

void lists(const std::string& text) {
  check(parse_hostfile(text));
  check(parse_hosts(text));
  const std::vector<PlacedHost> hosts{{"a", 4}, {"b", 2}, {"c"}};
  check(include_hosts(hosts, text));
  check(exclude_hosts(hosts, text));
}

void texts(const std::string& text) {
  if (const auto card = parse_agent_card(text)) require(*parse_agent_card(card_line(*card)) == *card);
  if (const auto task = parse_agent_task(text)) {
    const auto line = task_line(*task);
    require(!line || *parse_agent_task(*line) == *task);
  }
  (void)parse_agent_verdict(text);
  if (const auto order = parse_relay_order(text)) require(*parse_relay_order(relay_order_line(*order)) == *order);
  if (const auto word = parse_shim_word(text); !word) check(word.error());
}

// Frames, in pieces as long as the first byte says: what comes out goes in again as it is.
void frames(std::string_view text) {
  if (text.empty()) return;
  const std::size_t piece = static_cast<unsigned char>(text[0]) + std::size_t{1};
  text.remove_prefix(1);
  RelayDecoder decoder;
  std::string again;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    decoder.feed(text.substr(0, piece));
    for (;;) {
      const auto frame = decoder.next();
      if (!frame) return check(frame.error());
      if (!*frame) break;
      require((*frame)->bytes.size() <= kRelayFrameBytes);
      again = relay_frames((*frame)->what, (*frame)->bytes);
      require(again.size() == (*frame)->bytes.size() + kRelayHeadBytes);
      (void)relay_status((*frame)->bytes);
    }
  }
}

void placement(std::string text) {
  PlacementRequest asked;
  asked.hosts = {{"a", 1}, {"b"}, {"c"}};
  asked.least = 2;
  MonoTime now{};
  Placement placement(asked, now);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string line = text.substr(0, end);
    text.erase(0, end + 1);
    if (line.empty()) continue;
    const int host = static_cast<unsigned char>(line[0]) % 3;
    switch (static_cast<unsigned char>(line[0]) / 3 % 5) {
      case 0:
        placement.said(host, line.substr(1), now);
        break;
      case 1:
        placement.complained(host, line.substr(1));
        break;
      case 2:
        placement.ended(host, line.size() > 1 ? static_cast<unsigned char>(line[1]) : 0, now);
        break;
      case 3:
        placement.signal(line.size() % 64 + 1, line.size() % 2 == 0);
        break;
      default:
        placement.look_at(now += std::chrono::seconds(line.size()));
    }
    for (const auto& order : placement.take_orders()) require(order.line.find('\n') == std::string::npos);
    for (const auto& note : placement.take_notes()) require(note.find('\n') == std::string::npos);
    if (const auto& over = placement.end(); over && !*over) check(over->error());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      lists(text);
      break;
    case 1:
      texts(text);
      break;
    case 3:
      frames(text);
      break;
    default:
      placement(text);
  }
  return 0;
}
