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

TEST_CASE("both ends of a connection forget the same pieces, however late some ask") {
  LastPieces sender, receiver;
  std::size_t sent = 0, named = 0;
  const auto asks = [&](std::size_t i) {
    const ShipPiece piece{i % 3, i / 3 * kShipPieceBytes, kShipPieceBytes};
    if (sender.find(piece) != nullptr) {
      ++named;
      REQUIRE(receiver.find(piece) != nullptr);
      CHECK(*receiver.find(piece) == std::to_string(i));
      return;
    }
    ++sent;
    REQUIRE(receiver.find(piece) == nullptr);
    sender.add(piece);
    receiver.add(piece, std::to_string(i));
  };
  // One asks at once, one a little later, and one so late that its pieces are gone and go over the connection again.
  constexpr std::size_t kPieces = 4 * LastPieces::kMost, kLittle = 100, kLate = LastPieces::kMost + 50;
  for (std::size_t i = 0; i < kPieces + kLate; ++i) {
    if (i < kPieces) asks(i);
    if (i >= kLittle && i - kLittle < kPieces) asks(i - kLittle);
    if (i >= kLate && i - kLate < kPieces) asks(i - kLate);
  }
  CHECK(sent > kPieces);
  CHECK(named > 0);
  CHECK(sent + named == 3 * kPieces);
}
