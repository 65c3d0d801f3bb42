#include "launcher/guard/stop_turns.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <unordered_set>

namespace dtrain::launcher {

namespace {

// New processes may appear between two looks. What a program starts after the last look is killed at the deadline.
constexpr int kMostLooks = 8;
// The least time between two looks, however many processes of a group end one by one.
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

bool is_among(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// Anybody can take such a name. A process that does so is spared the request to end, and not the kill at the deadline.
bool is_launcher(const std::string& name) { return name == "dtrain" || name == "dtrain-agent" || name == "dt-guard"; }

// The processes below the guard, without those that another launcher looks after.
std::vector<Descendant> in_our_care() {
  std::unordered_set<pid_t> launchers;  // with what is below them
  std::vector<Descendant> ours;
  for (Descendant& d : look_below(::getpid())) {
    const bool below = launchers.count(d.parent) != 0;
    if (below || is_launcher(d.name)) launchers.insert(d.pid);
    if (!below) ours.push_back(std::move(d));
  }
  return ours;
}

}  // namespace

void StopTurns::signal_workers(int signal, const std::vector<pid_t>& alive) {
  reached_.clear();
  stopping_ = true;
  rest_told_ = false;
  workers_gone_.reset();
  next_look_ = {};
  // Before the signal goes out: who is in a group now is reached, unless it leaves in this very moment.
  const auto before = look_below(::getpid());
  for (const pid_t pid : alive) ::kill(-pid, signal);  // the worker is not reaped, so the number is still its own
  for (const Descendant& d : before) {
    if (!is_with_worker(d)) continue;
    reached_.insert({d.pid, d.start});
    // One by one: the number of a group whose worker is gone may be another's.
    if (!is_among(alive, d.group)) signal_descendant(d, signal);
  }
  signal_everything(SIGCONT, alive);
}

void StopTurns::signal_rest(int signal) {
  if (!rest_told_) return;  // a new request came meanwhile, and it is the turn of the groups again
  bool found_new = true;
  for (int look = 0; found_new && look < kMostLooks; ++look) {
    found_new = false;
    for (const Descendant& d : in_our_care()) {
      if (!reached_.insert({d.pid, d.start}).second) continue;
      signal_descendant(d, signal);
      found_new = true;
    }
  }
  signal_everything(SIGCONT, {});
}

bool StopTurns::is_with_worker(const Descendant& process) const {
  return is_among(workers_, process.group) || is_among(workers_, process.session);
}

bool StopTurns::worker_is_left() const {
  const auto all = look_below(::getpid());
  return std::any_of(all.begin(), all.end(), [&](const Descendant& d) { return is_with_worker(d); });
}

bool StopTurns::rest_is_due(Time now) {
  if (rest_told_ || now < next_look_) return false;
  next_look_ = now + kBetweenLooks;
  if (stopping_ && worker_is_left()) {
    workers_gone_.reset();
    return false;
  }
  if (!workers_gone_) workers_gone_ = now;
  rest_told_ = now - *workers_gone_ >= kSettles;
  return rest_told_;
}

void signal_everything(int signal, const std::vector<pid_t>& workers) {
  for (const pid_t pid : workers) ::kill(-pid, signal);
  signal_descendants(::getpid(), signal, workers);
}

}  // namespace dtrain::launcher
