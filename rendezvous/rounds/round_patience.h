#pragma once
// How often a round that runs is stopped to take nodes in. Pure. Each such stop costs all nodes what they did since
// their last checkpoint. So a node that is lost again and again, as behind a link that comes and goes, waits longer
// each time before the others stop for it; and if many come one by one, some of them come in together.
//
// The wait is of use in a round that can do without the node: where it is needed, it is taken at once.
#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "rendezvous/base/clock.h"

namespace dtrain {

class RoundPatience {
 public:
  static constexpr Duration kWindow = std::chrono::minutes(10);
  // An agent that was lost kLosses times within kWindow waits kFirstWait from its last loss; each further loss doubles
  // the wait.
  static constexpr int kLosses = 3;
  static constexpr Duration kFirstWait = std::chrono::seconds(30);
  // At most kStops rounds are stopped for newcomers within any kStopsTime.
  static constexpr std::size_t kStops = 5;
  static constexpr Duration kStopsTime = std::chrono::seconds(30);

  // A round was stopped because this agent was lost.
  void lost(const std::string& agent, MonoTime now) {
    std::erase_if(lost_, [now](const auto& each) { return each.second.back() + kWindow <= now; });
    auto& times = lost_[agent];
    times.push_back(now);
    while (times.front() + kWindow <= now) times.pop_front();
  }
  // A round was stopped for a newcomer.
  void stopped(MonoTime now) {
    stops_.push_back(now);
    if (stops_.size() > kStops) stops_.pop_front();
  }

  int losses(const std::string& agent, MonoTime now) const {
    const auto it = lost_.find(agent);
    if (it == lost_.end()) return 0;
    return int(std::count_if(it->second.begin(), it->second.end(), [now](MonoTime at) { return now < at + kWindow; }));
  }
  // From when on a round may be stopped to take in this agent.
  MonoTime welcome_at(const std::string& agent, MonoTime now) const {
    const MonoTime others = stops_.size() < kStops ? MonoTime{} : stops_.front() + kStopsTime;
    const int many = losses(agent, now) - kLosses;
    if (many < 0) return others;
    const Duration wait = std::min<Duration>(kFirstWait * (1 << std::min(many, 10)), kWindow);
    return std::max(others, lost_.at(agent).back() + wait);
  }

 private:
  std::map<std::string, std::deque<MonoTime>> lost_;  // by agent; within kWindow
  std::deque<MonoTime> stops_;
};

}  // namespace dtrain
