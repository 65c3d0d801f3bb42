#include "rendezvous/election/etcd_election_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dtrain {

namespace act = election_action;
namespace ev = election_event;

namespace {
constexpr auto kForAnother = std::chrono::seconds(1);
}

std::vector<ElectionAction> ElectionCore::step(const ElectionEvent& event, MonoTime now) {
  Actions out;
  std::visit([&](const auto& e) { on(e, now, out); }, event);
  return out;
}

// ---- who is it ------------------------------------------------------------------------------------------------------

void ElectionCore::look(Actions& out) {
  if (phase_ != Phase::idle) return;
  phase_ = Phase::looking;
  out.push_back(act::Look{});
}

void ElectionCore::on(const ev::Find&, MonoTime, Actions& out) {
  asked_ = wanted_ = true;
  look(out);
}

// Its key may still be there for a while. Who hosts the job next is heard of by watching it.
void ElectionCore::on(const ev::Lost& event, MonoTime, Actions& out) {
  seen_ = std::max(seen_, event.term);
  lost_ = event.term;
  wanted_ = false;
  if (phase_ == Phase::leading && event.term != term_) return;
  if (phase_ == Phase::leading) resign(out);  // it has lost itself, and looks for a host as any other
  if (std::exchange(watching_, true)) return;
  out.push_back(act::Watch{});
}

// Whoever waits for a host hears of the next one unasked.
void ElectionCore::on(const ev::Changed& event, MonoTime, Actions& out) {
  if (phase_ == Phase::leading || !watching_) return;
  if (event.over) out.push_back(act::Watch{});
  if (!wanted_) return;  // what is found then will be new enough
  again_ = phase_ != Phase::idle;
  look(out);
}

// What has changed meanwhile was seen or not.
void ElectionCore::missed(Actions& out) {
  if (std::exchange(again_, false)) look(out);
}

void ElectionCore::on(const ev::Opened&, MonoTime, Actions& out) {
  if (std::exchange(watching_, false)) out.push_back(act::StopWatching{});
  again_ = wanted_ = false;
  lost_ = 0;
}

void ElectionCore::on(const ev::Looked& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::looking) return;
  phase_ = Phase::idle;
  // An answer that was lost: the key has been made with this agent's lease after all.
  if (event.host && lease_ != 0 && event.host->lease == lease_) return lead(*event.host, true, now, out);
  if (event.host) return found(*event.host, now, out);
  drop_lease(out);
  phase_ = Phase::granting;
  out.push_back(act::Grant{});
}

// A host that was lost may be dead, and its key still there: to look for it there again would take longer than to wait.
void ElectionCore::found(const ElectedHost& host, MonoTime now, Actions& out) {
  drop_lease(out);
  seen_ = std::max(seen_, host.term);
  host_ = host;
  if (asked_ && host.term == lost_) {
    if (!tell_at_) tell_at_ = now + kForAnother;
  } else if (asked_ || (wanted_ && host.term != told_)) {
    tell(out);
  }
  missed(out);
}

void ElectionCore::tell(Actions& out) {
  asked_ = false;
  tell_at_.reset();
  told_ = host_.term;
  out.push_back(act::There{host_});
}

void ElectionCore::on(const ev::Granted& event, MonoTime, Actions& out) {
  if (phase_ != Phase::granting) return;
  phase_ = Phase::campaigning;
  lease_ = event.lease;
  record_lease_ = event.record_lease;
  ttl_ = event.ttl;
  kept_ = event.sent;
  out.push_back(act::Campaign{lease_, record_lease_});
}

void ElectionCore::on(const ev::Campaigned& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::campaigning) return;
  phase_ = Phase::idle;
  // Tried twice, it may find its own key there.
  if (event.host && event.made) return lead(*event.host, event.record, now, out);
  if (event.host && event.host->lease == lease_) return lead(*event.host, true, now, out);
  if (event.host) return found(*event.host, now, out);
  if (std::exchange(asked_, false)) out.push_back(act::Nobody{"another host has just gone"});
  missed(out);
}

void ElectionCore::on(const ev::Failed& event, MonoTime, Actions& out) {
  if (phase_ == Phase::idle || phase_ == Phase::leading) return;
  // A campaign that was not answered may have made the key; the lease is kept to know it by.
  phase_ = Phase::idle;
  if (std::exchange(asked_, false)) out.push_back(act::Nobody{event.why});
  missed(out);
}

// The record's lease ends by itself: what it says may be needed by whoever comes next.
void ElectionCore::drop_lease(Actions& out) {
  if (lease_ != 0) out.push_back(act::Revoke{std::exchange(lease_, 0)});
}

// ---- the host -------------------------------------------------------------------------------------------------------

// The key of the host before went at some time before this answer.
void ElectionCore::lead(const ElectedHost& host, bool follows, MonoTime now, Actions& out) {
  if (now >= bound()) {  // the answer has come so late that others may have followed
    drop_lease(out);
    if (std::exchange(asked_, false)) out.push_back(act::Nobody{"etcd answers too late"});
    return missed(out);
  }
  phase_ = Phase::leading;
  asked_ = wanted_ = again_ = doubt_ = false;
  tell_at_.reset();
  lost_ = 0;
  term_ = told_ = host.term;
  keep_at_ = kept_ + between_keeps();
  keep_record_at_ = kept_;
  if (std::exchange(watching_, false)) out.push_back(act::StopWatching{});
  out.push_back(act::Here{term_, follows || seen_ != 0 ? now + settings_.fence() : MonoTime{}});
}

void ElectionCore::on(const ev::Kept& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::leading) return;
  if (!event.alive) return depose("its lease in etcd has run out", out);
  kept_ = std::max(kept_, event.sent);
  keep_at_ = std::max(now, kept_ + between_keeps());
  if (doubt_ && now < bound()) {
    doubt_ = false;
    out.push_back(act::Sure{});
  }
}

void ElectionCore::on(const ev::NotKept&, MonoTime now, Actions&) {
  if (phase_ == Phase::leading) keep_at_ = now;
}

void ElectionCore::on(const ev::Overtaken&, MonoTime, Actions& out) {
  if (phase_ == Phase::leading) depose("another agent has made the key in etcd", out);
}

void ElectionCore::on(const ev::Tick&, MonoTime now, Actions& out) {
  if (phase_ != Phase::leading) {
    if (tell_at_ && now >= *tell_at_) tell(out);
    return;
  }
  if (now >= too_late()) return depose(fmt::format("etcd has not answered for {:g} s", in_seconds(now - kept_)), out);
  if (now >= bound() && !std::exchange(doubt_, true)) out.push_back(act::Doubt{});
  if (!keep_at_ || now < *keep_at_) return;
  keep_at_.reset();
  if (now >= keep_record_at_) {
    keep_record_at_ = now + kRecordLease / 4;
    out.push_back(act::KeepRecord{record_lease_});
  }
  // A member of etcd's that says nothing must not take all of the time.
  out.push_back(act::Keep{lease_, std::max<Duration>(between_keeps(), std::chrono::milliseconds(100))});
}

void ElectionCore::depose(const std::string& why, Actions& out) {
  resign(out);
  out.push_back(act::Deposed{why});
}

// The key goes now, not when the lease runs out: whoever follows waits for the fence from then on.
void ElectionCore::resign(Actions& out) {
  phase_ = Phase::idle;
  doubt_ = false;
  seen_ = std::max(seen_, term_);
  keep_at_.reset();
  drop_lease(out);
}

std::optional<MonoTime> ElectionCore::deadline() const {
  if (phase_ != Phase::leading) return tell_at_;
  const MonoTime next = doubt_ ? too_late() : bound();
  return keep_at_ ? std::min(*keep_at_, next) : next;
}

}  // namespace dtrain
