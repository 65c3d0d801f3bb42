#pragma once
// Which agent hosts a job's rounds, by a key in etcd: whoever makes it is the host for as long as the key's lease
// lives. Pure: step(event, now) -> actions. EtcdFinder carries them out; test/sim attacks it.
//
//   idle --find--> looking --no key--> granting --> campaigning --made--> leading <--> in doubt
//     ^               |                                 |                    |            |
//     +---- key of another: its host is told -----------+         the lease is gone, or not confirmed for long
//
// The term of a host is the key's create_revision: higher than that of every host before, and gone with the key. Every
// write of a host compares it, so one that has been followed cannot write.
//
// A lease alone says nothing about what its holder does, so the times are these. A host counts from the moment it SENT
// the last keepalive that was answered; TTL later, less some as clocks differ (bound()), it is in doubt and answers no
// pings, so that every node stops its workers by itself (link_pulse.h) within fence(). The key is gone no earlier than
// bound(). Whoever follows opens no round before fence() after it has heard that its own key is there. A host in doubt
// whose lease turns out to be alive goes on as before; if it does not learn that before its nodes stop, it is deposed.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/clock.h"
#include "rendezvous/rounds/link_pulse.h"

namespace dtrain {

inline constexpr std::chrono::seconds kRecordLease{60};  // so long a host is known to have been there

struct ElectionSettings {
  PulseSettings pulse;
  std::int64_t ttl_seconds = 2;  // asked for; etcd may give more
  Duration fence() const { return PulseSettings::on_any_clock(pulse.fenced_after()); }
};

// A host as its key says.
struct ElectedHost {
  std::string value;
  std::uint64_t term = 0;
  std::int64_t lease = 0;
};

namespace election_event {
// Where is the host? Answered once, and again unasked when it is another one, until Lost or Opened.
struct Find {};
struct Lost {  // the link to the host of this term broke
  std::uint64_t term = 0;
};
struct Looked {
  std::optional<ElectedHost> host;
};
struct Granted {
  std::int64_t lease = 0, record_lease = 0;
  Duration ttl{};
  MonoTime sent{};
};
struct Campaigned {
  bool made = false;
  bool record = false;              // there was one: of a host of the last minute
  std::optional<ElectedHost> host;  // as the key is now
};
struct Kept {
  bool alive = true;
  MonoTime sent{};
};
struct NotKept {};  // no answer
struct Failed {     // to look, to be granted a lease, to campaign
  std::string why;
};
struct Changed {      // the key that is watched, perhaps
  bool over = false;  // the watch has ended
};
struct Opened {};     // a round has begun that this agent is in: its host is there
struct Overtaken {};  // a write has found the key of another
struct Tick {};
}  // namespace election_event
using ElectionEvent =
    std::variant<election_event::Find, election_event::Lost, election_event::Looked, election_event::Granted,
                 election_event::Campaigned, election_event::Kept, election_event::NotKept, election_event::Failed,
                 election_event::Changed, election_event::Opened, election_event::Overtaken, election_event::Tick>;

namespace election_action {
struct Look {};
struct Grant {};
struct Campaign {  // make the key and the record, each with its lease, if there is no key
  std::int64_t lease = 0, record_lease = 0;
};
struct Keep {  // the answer may come late, but not after this
  std::int64_t lease = 0;
  Duration limit{};
};
struct KeepRecord {  // nobody waits for the answer
  std::int64_t lease = 0;
};
struct Revoke {
  std::int64_t lease = 0;
};
struct Watch {};
struct StopWatching {};
// Answers.
struct Here {
  std::uint64_t term = 0;
  MonoTime not_before{};  // for the first round
};
struct There {
  ElectedHost host;
};
struct Nobody {
  std::string why;
};
struct Doubt {};  // for people: sure() says it
struct Sure {};
struct Deposed {
  std::string why;
};
}  // namespace election_action
using ElectionAction =
    std::variant<election_action::Look, election_action::Grant, election_action::Campaign, election_action::Keep,
                 election_action::KeepRecord, election_action::Revoke, election_action::Watch,
                 election_action::StopWatching, election_action::Here, election_action::There, election_action::Nobody,
                 election_action::Doubt, election_action::Sure, election_action::Deposed>;

class ElectionCore {
 public:
  explicit ElectionCore(const ElectionSettings& settings) : settings_(settings) {}

  std::vector<ElectionAction> step(const ElectionEvent& event, MonoTime now);
  // When Tick is due; none: never.
  std::optional<MonoTime> deadline() const;

  bool leads() const { return phase_ == Phase::leading; }
  // Whether pings may be answered: asked each time, as a host that was kept from running learns late that it is in
  // doubt.
  bool sure(MonoTime now) const { return leads() && now < bound(); }
  std::uint64_t term() const { return term_; }
  std::int64_t lease() const { return lease_; }
  std::int64_t record_lease() const { return record_lease_; }
  // Until then the key lives, whatever happens to this host.
  MonoTime bound() const { return kept_ + PulseSettings::before_any_clock(ttl_); }
  // A host: by then its workers must be dead if etcd does not answer.
  std::optional<MonoTime> fenced_at() const {
    return leads() ? std::optional(bound() + settings_.pulse.fenced_after()) : std::nullopt;
  }

 private:
  using Actions = std::vector<ElectionAction>;
  enum class Phase { idle, looking, granting, campaigning, leading };

  void on(const election_event::Find& event, MonoTime now, Actions& out);
  void on(const election_event::Lost& event, MonoTime now, Actions& out);
  void on(const election_event::Looked& event, MonoTime now, Actions& out);
  void on(const election_event::Granted& event, MonoTime now, Actions& out);
  void on(const election_event::Campaigned& event, MonoTime now, Actions& out);
  void on(const election_event::Kept& event, MonoTime now, Actions& out);
  void on(const election_event::NotKept& event, MonoTime now, Actions& out);
  void on(const election_event::Failed& event, MonoTime now, Actions& out);
  void on(const election_event::Changed& event, MonoTime now, Actions& out);
  void on(const election_event::Opened& event, MonoTime now, Actions& out);
  void on(const election_event::Overtaken& event, MonoTime now, Actions& out);
  void on(const election_event::Tick& event, MonoTime now, Actions& out);

  void look(Actions& out);
  void found(const ElectedHost& host, MonoTime now, Actions& out);
  void tell(Actions& out);
  void missed(Actions& out);
  void lead(const ElectedHost& host, bool follows, MonoTime now, Actions& out);
  void depose(const std::string& why, Actions& out);
  void resign(Actions& out);
  void drop_lease(Actions& out);
  Duration between_keeps() const { return ttl_ / 4; }
  MonoTime too_late() const { return bound() + settings_.pulse.stop_after(); }

  const ElectionSettings settings_;
  Phase phase_ = Phase::idle;
  bool asked_ = false;               // Find has no answer yet
  bool wanted_ = false;              // another answer is
  std::uint64_t lost_ = 0;           // the term of the host that was lost
  std::optional<MonoTime> tell_at_;  // the same host again, should there be no other one by then
  ElectedHost host_;
  bool watching_ = false;   // since a host was lost: its key may go
  bool again_ = false;      // ... and has changed while something was under way
  std::uint64_t seen_ = 0;  // the highest term of another host
  std::uint64_t told_ = 0;  // the term of the last answer
  std::uint64_t term_ = 0;  // of this host
  std::int64_t lease_ = 0, record_lease_ = 0;
  Duration ttl_{};
  MonoTime kept_{};                  // when the last keepalive that was answered was sent
  std::optional<MonoTime> keep_at_;  // the next one; none: one is under way
  MonoTime keep_record_at_{};
  bool doubt_ = false;
};

}  // namespace dtrain
