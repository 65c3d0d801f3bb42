#include "launcher/hosting/join_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/job/exit_codes.h"
#include "launcher/job/group_core.h"

namespace dtrain::launcher {

namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(100);
constexpr auto kLongestPauseAcross = std::chrono::milliseconds(1000);
// A host that is about to leave turns everybody away, for a second or so.
constexpr int kMostTurnedAway = 12;
constexpr int kMostTurnedAwayAcross = 9;  // the pauses between attempts are longer

std::string after_colon(const std::string& text) { return text.empty() ? "" : ": " + text; }

}  // namespace

std::vector<JoinAction> JoinCore::step(const JoinEvent& event, const JoinScene& scene, MonoTime now) {
  Actions out;
  if (!over()) std::visit([&](const auto& e) { on(e, {scene, now, out}); }, event);
  return out;
}

std::optional<MonoTime> JoinCore::deadline() const {
  if (phase_ == Phase::waiting) return retry_at_;
  if (phase_ == Phase::finding) return give_up_at_;  // the finder may take longer than the user waits
  return std::nullopt;
}

// ---- attempts -------------------------------------------------------------------------------------------------------

void JoinCore::on(const join_event::Begin&, const At& at) {
  give_up_at_ = at.now + settings_.timeout;
  pause_ = kFirstPause;
  waits_because_.clear();
  turned_away_ = 0;
  look(at);
}

void JoinCore::look(const At& at) {
  if (at.scene.hosts) return dial(true, at);
  // Where nobody can follow a lost host, nobody takes its place at the endpoint either.
  if (hostless() && !at.scene.survives) return dial(false, at);
  phase_ = Phase::finding;
  at.out.emplace_back(join_action::Find{});
}

void JoinCore::on(const join_event::Found& event, const At& at) {
  // This agent may become the host while its workers of the last round still end: then Begin dials.
  if (event.here) host_ = event.host;
  if (!may_join()) return;
  if (!event.here && outdated(event.host.term)) return wait("the host that was found is an old one", at);
  host_ = event.host;
  dial(event.here, at);
}

void JoinCore::dial(bool here, const At& at) {
  phase_ = Phase::dialing;
  at.out.emplace_back(join_action::Dial{host_, here});
}

void JoinCore::on(const join_event::Nobody& event, const At& at) {
  if (may_join()) wait(event.why, at);
}

void JoinCore::on(const join_event::Withdraw&, const At& at) {
  if (!may_join()) return;
  at.out.emplace_back(join_action::HangUp{});
  wait("another host is being chosen", at);
}

void JoinCore::on(const join_event::Tick&, const At& at) {
  const auto due = deadline();
  if (!due || at.now < *due) return;
  if (at.now >= give_up_at_) return time_up(waits_because_.empty() ? "there is no host yet" : waits_because_, at);
  look(at);
}

void JoinCore::wait(const std::string& why, const At& at) {
  if (at.now >= give_up_at_) return time_up(why, at);
  phase_ = Phase::waiting;
  waits_because_ = why;
  retry_at_ = std::min(at.now + pause_, give_up_at_);
  pause_ = std::min<Duration>(2 * pause_, settings_.across_hosts ? kLongestPauseAcross : kLongestPause);
  at.out.emplace_back(join_action::Wait{why + settings_.only_here, give_up_at_});
}

// ---- what a host says, or does not say ------------------------------------------------------------------------------

void JoinCore::on(const join_event::Unreachable& event, const At& at) {
  if (phase_ != Phase::dialing) return;
  // The machine of the lost host is there, and the host is not. No other agent takes its place; a server may come back.
  if (hostless() && event.refused && !standing_ && !at.scene.survives)
    return give_up(JobEnd::lost, lost_and("", at), at);
  const bool nobody = !settings_.across_hosts || event.refused;
  wait(nobody ? fmt::format("nobody at {} yet", at.scene.endpoint) : event.why, at);
}

// A host that is about to leave turns everybody away, and so does anybody on the way who says something in clear. But a
// peer that turns this node away again and again does not want it.
void JoinCore::on(const join_event::TurnedAway& event, const At& at) {
  if (phase_ != Phase::dialing) return;
  const bool across = settings_.across_hosts;
  const std::string& endpoint = at.scene.endpoint;
  const std::string what = event.reason.empty() ? "it closes the connection" : event.reason;
  if (!event.final && ++turned_away_ < (across ? kMostTurnedAwayAcross : kMostTurnedAway))
    return wait(across ? fmt::format("{}: {}", endpoint, what) : fmt::format("nobody at {} yet", endpoint), at);
  if (!across) {
    phase_ = Phase::over;
    at.out.emplace_back(join_action::GiveUpPort{event.reason});
    return;
  }
  const char* cure =
      event.clear ? "; is it the port of another program, such as torchrun? All nodes need the same launcher" : "";
  give_up(JobEnd::refused, fmt::format("cannot join the job at {}: {}{}", endpoint, what, cure), at);
}

void JoinCore::on(const join_event::Refused& event, const At& at) {
  if (event.try_again) return wait(event.reason, at);
  give_up(JobEnd::refused, fmt::format("{}: {}", at.scene.endpoint, event.reason), at);
}

void JoinCore::on(const join_event::Standing&, const At&) { standing_ = true; }

void JoinCore::on(const join_event::Opened& event, const At&) {
  phase_ = Phase::in_round;
  lost_because_.clear();
  last_term_ = host_.term = event.term;
}

void JoinCore::on(const join_event::LinkLost& event, const At& at) {
  std::string gone = fmt::format("the {} at {} is gone{}", standing_ ? "rendezvous server" : "agent that hosts the job",
                                 at.scene.endpoint, after_colon(event.reason));
  if (event.did_not_run) gone = kDidNotRun;
  const bool again = settings_.rejoin && (!at.scene.hosts || at.scene.survives);
  if (!again) {
    give_up(JobEnd::lost, gone, at);
    if (settings_.across_hosts) std::get<join_action::GiveUp>(at.out.back()).grace = settings_.kill_grace;
    return;
  }
  phase_ = Phase::parting;
  lost_because_ = gone;
  at.out.emplace_back(join_action::Part{gone, settings_.kill_grace});
}

// ---- the end --------------------------------------------------------------------------------------------------------

void JoinCore::on(const join_event::NoHost& event, const At& at) {
  if (hostless()) return give_up(JobEnd::lost, lost_and(event.why, at), at);
  give_up(JobEnd::refused, event.why, at);
}

void JoinCore::on(const join_event::Failed& event, const At& at) { give_up(JobEnd::refused, event.why, at); }

// Why the host is lost, and why no other one follows.
std::string JoinCore::lost_and(const std::string& why, const At& at) const {
  const std::string because = !why.empty() ? why : at.scene.missing;
  return because.empty() ? lost_because_ : lost_because_ + "; " + because;
}

void JoinCore::time_up(const std::string& why, const At& at) {
  const double waited = in_seconds(settings_.timeout);
  if (hostless()) {
    const std::string& missing = at.scene.missing;
    return give_up(JobEnd::lost,
                   fmt::format("{}; nobody was found at {} for {:g} s (--rdzv-conf join_timeout): {}{}{}",
                               lost_because_, at.scene.endpoint, waited, why, missing.empty() ? "" : "; ", missing),
                   at);
  }
  give_up(JobEnd::timeout,
          fmt::format("nobody has opened the job at {} within {:g} s (--rdzv-conf {}){}", at.scene.endpoint, waited,
                      settings_.fixed_rank ? "timeout" : "join_timeout",
                      settings_.across_hosts ? ": " + why : settings_.only_here),
          at);
}

void JoinCore::give_up(JobEnd how, const std::string& reason, const At& at) {
  phase_ = Phase::over;
  const int code = how == JobEnd::timeout ? kExitTimeLimit : kExitOwnFailure;
  at.out.emplace_back(join_action::GiveUp{{how, code, -1, reason}, {}});
}

}  // namespace dtrain::launcher
