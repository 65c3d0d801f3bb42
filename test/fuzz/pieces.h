#pragma once
// Input as it comes from a socket: cut anywhere.
#include <cstdint>
#include <string_view>

namespace dtrain {

// Give all of it to `feed` in pieces of 1 to 13 bytes that the seed draws, until that returns false.
template <class Feed>
void in_pieces(std::string_view rest, std::uint32_t seed, Feed feed) {
  while (!rest.empty()) {
    seed = seed * 1664525U + 1013904223U;
    const std::string_view piece = rest.substr(0, 1 + (seed >> 24) % 13);
    rest.remove_prefix(piece.size());
    if (!feed(piece)) return;
  }
}

}  // namespace dtrain
