// The ring of frames between two ranks, here between two threads.
#include "strategies/comm/messages/shm_ring.h"

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

struct Ring {
  explicit Ring(std::size_t size) : memory(size), ring(*block, memory.data(), size) {}
  std::unique_ptr<PairBlock> block = std::make_unique<PairBlock>();
  std::vector<std::byte> memory;  // exactly: what is beyond it a sanitizer sees
  ShmRing ring;
};

std::byte byte_of(std::uint64_t frame, std::size_t i) { return static_cast<std::byte>((frame * 31 + i) & 0xFF); }

}  // namespace

TEST_CASE("every frame comes out as it went in, in order, around the ring's end") {
  const std::size_t size = GENERATE(4096, 8192, 65536);
  constexpr std::uint64_t kFrames = 20'000;
  Ring pair(size);
  std::thread writer([&] {
    std::mt19937 random(7);
    for (std::uint64_t n = 0; n < kFrames;) {
      const auto room = pair.ring.room();
      // Now and then as much as there is room for, else what finds room sooner or later.
      const std::size_t wanted = random() % (n % 16 == 0 ? size : pair.ring.whole_bytes() + 1);
      if (!room || (*room < wanted && n % 16 != 0)) {
        std::this_thread::yield();
        continue;
      }
      std::vector<std::byte> payload(std::min(wanted, *room));
      for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = byte_of(n, i);
      Frame frame;
      frame.kind = Frame::Kind::part;
      frame.send = n++;
      frame.payload = payload.size();
      pair.ring.write(frame, payload);
    }
  });
  std::uint64_t expected = 0, wrong = 0;
  while (expected < kFrames) {
    const bool read = pair.ring.read([&](const Frame& frame, std::span<const std::byte> payload) {
      if (frame.send != expected || frame.kind != Frame::Kind::part) ++wrong;
      for (std::size_t i = 0; i < payload.size(); ++i)
        if (payload[i] != byte_of(expected, i)) ++wrong;
      ++expected;
    });
    if (!read) std::this_thread::yield();
  }
  writer.join();
  CHECK(wrong == 0);
}

TEST_CASE("an empty ring has room for what every frame is promised, wherever it stands") {
  Ring pair(4096);
  for (int n = 0; n < 1000; ++n) {
    const auto room = pair.ring.room();
    REQUIRE(room);
    REQUIRE(*room >= pair.ring.whole_bytes());
    Frame frame;
    frame.kind = Frame::Kind::offer;
    pair.ring.write(frame, {});
    REQUIRE(pair.ring.read([](const Frame&, std::span<const std::byte>) {}));
    REQUIRE_FALSE(pair.ring.read([](const Frame&, std::span<const std::byte>) {}));
  }
}

TEST_CASE("a full ring takes no more until something is read") {
  Ring pair(4096);
  int written = 0;
  Frame frame;
  frame.kind = Frame::Kind::offer;
  for (; pair.ring.room(); ++written) pair.ring.write(frame, {});
  CHECK(written > 16);
  REQUIRE(pair.ring.read([](const Frame&, std::span<const std::byte>) {}));
  int read = 1;
  while (pair.ring.read([](const Frame&, std::span<const std::byte>) {})) ++read;
  CHECK(read == written);
  CHECK(pair.ring.room());
}
