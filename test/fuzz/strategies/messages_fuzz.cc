// Fuzzes messages between hosts: what another host sends while this rank sends and receives. However it is cut, and
// whether payload is read into its place or comes by way of a buffer, the same frames are refused and the same calls
// end with the same bytes; nothing outside the callers' memory is written.
//
// The input is a list of steps, a byte each and what it needs: calls of this rank, frames whose fields are small enough
// to meet, bytes as they are.
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>

#include "rendezvous/base/check.h"
#include "strategies/comm/messages/p2p_inbox.h"
#include "test/fuzz/pieces.h"

using namespace dtrain;

namespace {

constexpr int kPeer = 1;

class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() { return take(1).empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(last_.front()); }
  std::string_view take(std::size_t n) {
    last_ = rest_.substr(0, n);
    rest_.remove_prefix(last_.size());
    return last_;
  }

 private:
  std::string_view rest_, last_;
};

// One way of reading, with a rank of its own.
class Reader {
 public:
  void send(P2pCore::Id id, std::size_t bytes) {
    calls_[id].assign(bytes, std::byte{'x'});
    core_.send(id, kPeer, {static_cast<int>(bytes % 3), 1, ""}, calls_[id]);
  }
  void receive(P2pCore::Id id, bool any, std::size_t bytes) {
    calls_[id].assign(bytes, std::byte{'-'});
    core_.receive(id, any ? P2pCore::kAny : kPeer, {static_cast<int>(bytes % 3), 1, ""}, calls_[id]);
  }
  // What there is to say goes out, so that there is something to grant.
  void talk() {
    while (const auto next = core_.next(kPeer, 64)) core_.gone(*next);
    collect();
  }
  // False: refused.
  bool come(std::string_view bytes, bool in_place) {
    if (sound_ && !bytes.empty()) {
      const auto missing = inbox_.missing();
      const std::size_t placed = in_place ? std::min(bytes.size(), missing.size()) : 0;
      if (placed > 0) std::memcpy(missing.data(), bytes.data(), placed);
      // As a connection does: the end of a payload and what follows come at once.
      sound_ = inbox_.take(core_, placed, std::as_bytes(std::span(bytes)).subspan(placed));
    }
    collect();
    return sound_;
  }
  // What has ended, in order, with the bytes there were then.
  const std::string& story() const { return story_; }

 private:
  void collect() {
    for (const auto& finished : core_.finished()) {
      const auto& bytes = calls_.at(finished.id);
      story_ += std::to_string(finished.id) + ":" + std::to_string(finished.peer) + finished.misfit;
      story_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()) += '\n';
    }
  }

  P2pCore core_{2, {64, 128, 1024}};
  P2pInbox inbox_{kPeer};
  std::map<P2pCore::Id, std::vector<std::byte>> calls_;
  bool sound_ = true;
  std::string story_;
};

std::string frame_of(Input& input) {
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(input.byte() % 7);
  frame.type = input.byte() % 8 == 0 ? 2 : 1;
  frame.bytes = input.byte();
  frame.tag = static_cast<int>(frame.bytes % 3);
  const bool carries = frame.kind == Frame::Kind::whole || frame.kind == Frame::Kind::part;
  const std::string_view payload = input.take(carries ? frame.bytes : 0);
  if (frame.kind == Frame::Kind::whole) frame.bytes = payload.size();
  frame.payload = payload.size();
  frame.send = input.byte() % 16;
  frame.receive = input.byte() % 16;
  frame.returned = input.byte() < 16 ? input.byte() : 0;
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
  return bytes.append(payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(std::string_view(reinterpret_cast<const char*>(data), size));
  Reader whole, cut, placed;
  P2pCore::Id id = 0;
  std::uint32_t seed = input.byte();
  while (!input.empty()) {
    const unsigned step = input.byte();
    if (step % 4 == 0) {
      const std::size_t bytes = input.byte();
      ++id;
      for (Reader* reader : {&whole, &cut, &placed})
        step % 8 == 0 ? reader->send(id, bytes) : reader->receive(id, step % 16 == 4, bytes);
    } else if (step % 4 == 1) {
      for (Reader* reader : {&whole, &cut, &placed}) reader->talk();
    } else {
      const std::string bytes = step % 4 == 2 ? frame_of(input) : std::string(input.take(input.byte()));
      const bool sound = whole.come(bytes, false);
      in_pieces(bytes, seed, [&](std::string_view piece) { return cut.come(piece, false); });
      in_pieces(bytes, ++seed, [&](std::string_view piece) { return placed.come(piece, true); });
      const std::string& story = whole.story();
      DT_CHECK(sound == cut.come("", false) && sound == placed.come("", true), "the same is refused");
      DT_CHECK(story == cut.story() && story == placed.story(), "the same ends, with the same bytes");
      if (!sound) return 0;
    }
  }
  return 0;
}
