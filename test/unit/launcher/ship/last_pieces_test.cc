// Both ends of a connection remember the same pieces.
#include "launcher/ship/last_pieces.h"

#include "test/support/catch.h"

using namespace dtrain::launcher;

TEST_CASE("the last pieces are known, and no others") {
  LastPieces last;
  const auto piece = [](std::size_t i) { return ShipPiece{i / 10, i % 10 * kShipPieceBytes, kShipPieceBytes}; };
  for (std::size_t i = 0; i < LastPieces::kMost + 3; ++i) {
    CHECK(last.find(piece(i)) == nullptr);
    last.add(piece(i), std::to_string(i));
  }
  for (std::size_t i = 0; i < LastPieces::kMost + 3; ++i) {
    const std::string* found = last.find(piece(i));
    if (i < 3)
      CHECK(found == nullptr);
    else
      CHECK(*found == std::to_string(i));
  }
  last.add(piece(0), "again");
  CHECK(*last.find(piece(0)) == "again");
  CHECK(last.find(piece(3)) == nullptr);
}
