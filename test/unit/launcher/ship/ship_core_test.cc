// Which pieces an agent asks for.
#include "launcher/ship/ship_core.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Way = ShipCore::Way;

namespace {

ShipFile file_with(const std::string& path, std::uint64_t size, char digest) {
  return {path, size, std::string(64, digest), false};
}

}  // namespace

TEST_CASE("each content that a host lacks is asked for once") {
  ShipCore core({file_with("a", 10, 'a'), file_with("b", 20, 'b'), file_with("c", 20, 'b'), file_with("d", 10, 'a'),
                 file_with("e", 0, 'c')},
                {1, 0, 0, 0, 0});
  CHECK(core.take_asks() == std::vector<ShipPiece>{{1, 0, 20}});
  CHECK(core.take_asks().empty());
  REQUIRE(core.sources().size() == 5);
  CHECK(core.sources()[0].way == Way::copied_here);
  CHECK(core.sources()[1].way == Way::sent);
  CHECK(core.sources()[2].way == Way::same_as);
  CHECK(core.sources()[2].other == 1);
  CHECK(core.sources()[3].other == 0);
  CHECK(core.sources()[4].way == Way::sent);
  CHECK_FALSE(core.is_done());
  CHECK(core.got({1, 0, 20}).ok());
  CHECK(core.is_done());
}

TEST_CASE("an agent asks for a few pieces ahead, and takes them in their order") {
  ShipCore core({file_with("a", (ShipCore::kAhead + 2) * kShipPieceBytes, 'a')}, {0});
  CHECK(core.take_asks().size() == ShipCore::kAhead);
  CHECK_FALSE(core.got({0, kShipPieceBytes, kShipPieceBytes}).ok());
  CHECK(core.got({0, 0, kShipPieceBytes}).ok());
  CHECK_FALSE(core.got({0, 0, kShipPieceBytes}).ok());
  CHECK(core.take_asks() == std::vector<ShipPiece>{{0, ShipCore::kAhead * kShipPieceBytes, kShipPieceBytes}});
}

TEST_CASE("a piece that nobody has asked for is refused") {
  ShipCore core({file_with("a", 10, 'a')}, {0});
  CHECK_FALSE(core.got({0, 0, 10}).ok());
  CHECK(core.take_asks().size() == 1);
  CHECK_FALSE(core.got({0, 0, 9}).ok());
  CHECK(core.got({0, 0, 10}).ok());
  CHECK_FALSE(core.got({0, 10, 0}).ok());
}

TEST_CASE("a host that has all of the files asks for nothing") {
  ShipCore core({file_with("a", 10, 'a')}, {1});
  CHECK(core.take_asks().empty());
  CHECK(core.is_done());
}
