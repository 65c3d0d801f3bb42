#pragma once
// StallWatch decides when a full queue stops being back-pressure and becomes a stuck sink whose text is dropped. Pure.
#include <chrono>
#include <cstdint>
#include <optional>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class StallWatch {
 public:
  // patience: how long a full sink may take nothing before text is dropped.
  explicit StallWatch(Duration patience) : patience_(patience) {}

  // Tell the state of the sink: full, drained (room for half a queue again), and what it has taken so far.
  void look(bool full, bool drained, uint64_t progress, MonoTime now) {
    if (drained) dropping_ = false;
    bool taking = !full_ || progress != progress_;
    full_ = full;
    progress_ = progress;
    if (taking) {
      since_ = now;
    } else if (full && now - since_ >= patience_) {
      dropping_ = true;
    }
  }

  bool dropping() const { return dropping_; }
  // When to look again although nothing else happened.
  std::optional<MonoTime> deadline() const {
    if (!full_ || dropping_) return std::nullopt;
    return since_ + patience_;
  }

 private:
  Duration patience_;
  bool full_ = false;
  MonoTime since_{};  // of the last sign of progress
  uint64_t progress_ = 0;
  bool dropping_ = false;
};

}  // namespace dtrain::launcher
