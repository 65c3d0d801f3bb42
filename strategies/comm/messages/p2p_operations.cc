// See p2p_operations.h.
#include "strategies/comm/messages/p2p_operations.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain {

std::string P2pOperations::Pending::name() const {
  const std::string peer = request.peer == P2pCore::kAny ? "any rank" : fmt::format("rank {}", request.peer);
  return fmt::format("{} of {} {} {} with tag {}", sends ? "send" : "recv", request.label.text, sends ? "to" : "from",
                     peer, request.label.tag);
}

bool P2pOperations::wait_for_room(Lock& lock, Time deadline) {
  return room_.wait_until(lock, deadline, [this] { return pending_.size() < kMaxPending || closed_; });
}

void P2pOperations::close() {
  closed_ = true;
  room_.notify_all();
}

void P2pOperations::finish(Id id, const Outcome& outcome) {
  const auto found = pending_.find(id);
  if (Awaited* awaited = found->second.awaited) {
    awaited->outcome = outcome;
    awaited->over = true;
    over_.notify_all();
  } else {
    ended_.push_back({id, std::move(found->second.request.done), outcome});
  }
  pending_.erase(found);
  room_.notify_one();
}

P2pOperations::Ended P2pOperations::take_first() {
  Ended first = std::move(ended_.front());
  ended_.pop_front();
  return first;
}

std::optional<P2pOperations::Ended> P2pOperations::take(Id id) {
  const auto same = [id](const Ended& ended) { return ended.id == id; };
  const auto found = std::find_if(ended_.begin(), ended_.end(), same);
  if (found == ended_.end()) return std::nullopt;
  Ended own = std::move(*found);
  ended_.erase(found);
  return own;
}

bool P2pOperations::await(Lock& lock, const Awaited& awaited, std::chrono::milliseconds time) {
  return over_.wait_for(lock, time, [&awaited] { return awaited.over.load(); });
}

}  // namespace dtrain
