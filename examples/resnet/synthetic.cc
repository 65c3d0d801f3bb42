// See synthetic.h.
#include "examples/resnet/synthetic.h"

namespace resnet {
namespace {

// SplitMix64's output function: neighbouring numbers become unrelated ones.
std::uint64_t scatter(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

void draw_picture(std::int64_t index, std::int64_t label, std::int64_t side, std::span<std::uint8_t> pixels) {
  const std::uint64_t of_class = scatter(static_cast<std::uint64_t>(label));
  std::uint64_t noise = scatter(~static_cast<std::uint64_t>(index));
  std::size_t at = 0;
  for (std::int64_t colour = 0; colour < 3; ++colour) {
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x) {
        const auto square = static_cast<std::uint64_t>((colour * 4 + y * 4 / side) * 4 + x * 4 / side);
        const std::uint64_t plain = scatter(of_class + square) >> 56;
        noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's linear congruential generator
        pixels[at++] = static_cast<std::uint8_t>((plain + (noise >> 56)) / 2);
      }
    }
  }
}

}  // namespace resnet
