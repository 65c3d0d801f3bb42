#pragma once
// The last pieces of files that have gone over one connection. Both ends remember the same ones, so that one end can
// name a piece that the other end has. Pure.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "launcher/engine_wire/ship_wire.h"

namespace dtrain::launcher {

class LastPieces {
 public:
  static constexpr std::size_t kMost = 256;  // 16 MiB

  // With its bytes at the end that has got it. For pieces that are not there yet.
  void add(const ShipPiece& piece, std::string bytes = {}) {
    if (order_.size() == kMost) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    order_.emplace_back(piece.file, piece.from);
    known_[order_.back()] = std::move(bytes);
  }
  // Null: it is not there, or no more.
  const std::string* find(const ShipPiece& piece) const {
    const auto found = known_.find({piece.file, piece.from});
    return found == known_.end() ? nullptr : &found->second;
  }

 private:
  std::deque<std::pair<std::size_t, std::uint64_t>> order_{};
  std::map<std::pair<std::size_t, std::uint64_t>, std::string> known_{};
};

}  // namespace dtrain::launcher
