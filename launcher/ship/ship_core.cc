// Tested by test/unit/launcher/ship/ship_core_test.cc.
#include "launcher/ship/ship_core.h"

#include <map>
#include <utility>

namespace dtrain::launcher {

ShipCore::ShipCore(std::vector<ShipFile> files, const std::vector<char>& here) : files_(std::move(files)) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto [first, is_new] = known.emplace(files_[i].sha256, i);
    if (here[i] != 0)
      sources_.push_back({Way::copied_here, 0});
    else if (!is_new && files_[first->second].size == files_[i].size)
      sources_.push_back({Way::same_as, first->second});
    else
      sources_.push_back({Way::sent, 0});
    if (sources_[i].way != Way::sent) continue;
    for (std::uint64_t from = 0; from < files_[i].size; from += kShipPieceBytes)
      pieces_.push_back(ship_piece(files_, i, from));
  }
}

std::vector<ShipPiece> ShipCore::take_asks() {
  std::vector<ShipPiece> asks;
  for (; asked_ < pieces_.size() && asked_ < next_ + kAhead; ++asked_) asks.push_back(pieces_[asked_]);
  return asks;
}

Result<void> ShipCore::got(const ShipPiece& piece) {
  if (next_ == asked_ || piece != pieces_[next_])
    return Error{ErrorKind::system, "a piece of a file came that was not asked for"};
  ++next_;
  return {};
}

}  // namespace dtrain::launcher
