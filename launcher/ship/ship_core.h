#pragma once
// Which pieces of a job's files an agent asks for, in which order. A content that several files have is asked for once.
// Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "launcher/engine_wire/ship_wire.h"

namespace dtrain::launcher {

class ShipCore {
 public:
  // Pieces that are on their way: what the submitter holds for one agent.
  static constexpr std::size_t kAhead = 8;

  // How a file comes into the job's folder.
  enum class Way { sent, copied_here, same_as };
  struct Source {
    Way way = Way::sent;
    std::size_t other = 0;  // same_as: an earlier file
  };

  // `here`: by file, whether this host has it.
  ShipCore(std::vector<ShipFile> files, const std::vector<char>& here);

  const std::vector<Source>& sources() const { return sources_; }
  // To be asked for now. Taken once.
  std::vector<ShipPiece> take_asks();
  // Error: it is not the one that comes next.
  Result<void> got(const ShipPiece& piece);
  // All that is asked for is here.
  bool is_done() const { return next_ == pieces_.size(); }

 private:
  std::vector<ShipFile> files_;
  std::vector<Source> sources_{};
  std::vector<ShipPiece> pieces_{};  // all that are to come, in their order
  std::size_t asked_ = 0, next_ = 0;
};

}  // namespace dtrain::launcher
