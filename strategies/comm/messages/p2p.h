#pragma once
// Point-to-point messages among the ranks of a group: P2pCore decides what goes where, this class moves it, over a link
// to each rank (p2p_link.h): two rings in shared memory, or a connection to another host.
//
// A thread, there from the first call on or with the first connection, moves bytes, waits for the others and notices
// what the collectives notice: a rank that ended or left, a failure of the group, a deadline. Calls write what fits
// themselves, so that a small message is on its way when send() returns; callers that wait help (p2p_helper.h). The
// thread always empties the links, whatever was called for: no order of calls makes two ranks wait for each other, but
// sends and receives that do not match.
#include "strategies/comm/base/progress_threads.h"
#include "strategies/comm/memory/shm_wait.h"
#include "strategies/comm/messages/p2p_bell.h"
#include "strategies/comm/messages/p2p_callers.h"
#include "strategies/comm/messages/p2p_helper.h"
#include "strategies/comm/messages/p2p_links.h"
#include "strategies/comm/messages/p2p_operations.h"

namespace dtrain {

class P2p {
 public:
  // What it refers to lives longer. `spin` is how long a waiter looks before it sleeps. It is 0 where ranks outnumber
  // cores: there who waits for a message yields meanwhile (kYielding).
  P2p(const ShmSegment& segment, const PeerWatch& watch, const ShmWait& wait, int rank, std::chrono::microseconds spin);
  // As end().
  ~P2p();
  // In a group over several hosts, before the first call: sleep on a pipe (p2p_bell.h). Throws as P2pBell::use_pipes().
  void use_pipes(P2pBell::Pipe own, const std::vector<PeerFacts>& facts) { bell_.use_pipes(std::move(own), facts); }
  // After that, when all ranks of this host have done the same: reach the ranks of others. `links` lives until end().
  void reach_hosts(TcpLinks& links, const std::vector<int>& ranks);
  P2p(const P2p&) = delete;
  P2p& operator=(const P2p&) = delete;

  // An Outcome's error is a CollectiveError; the group is then broken for all ranks.
  using Outcome = P2pOperations::Outcome;
  // A request's `done` is called once, on the thread or within the call. What may take long in it begins with
  // make_way(): another thread then goes on. Its label's type and size must be those of the other side.
  using Request = P2pOperations::Request;
  using Done = P2pOperations::Done;
  using MakeWay = P2pOperations::MakeWay;
  using Id = P2pOperations::Id;  // of an operation

  // Any thread, no collectives. The memory stays in place until done() was called. A send is done when all of it is in
  // shared memory, the kernel's or received. Throws std::runtime_error after end(), or where
  // P2pOperations::kMaxPending operations wait already and none of them ends in time.
  Id send(std::span<const std::byte> data, Request request);
  Id receive(std::span<std::byte> into, Request request);

  // The same, and wait for the end on this thread; request.done is not used. What the interrupt check (interrupt.h)
  // throws ends the group.
  Outcome send_now(std::span<const std::byte> data, const Request& request);
  Outcome receive_now(std::span<std::byte> into, const Request& request);

  // For who waits for the message: move bytes on this thread, which spares a wake-up, until `over()`, or as long as the
  // thread looks before it sleeps. done() may be called within. Any thread; one at a time does so, for others the call
  // returns at once.
  void help(Id id, const std::function<bool()>& over);

  // Sends and receives that have begun and not ended. Any thread.
  std::size_t pending();

  // Pending operations end with FailureKind::aborted, or the group's failure; returns when all callbacks have, and what
  // was sent has reached the other hosts, for which it waits no longer than two seconds. Not from a callback.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = P2pCallers::Lock;
  using Pending = P2pOperations::Pending;
  using Ended = P2pOperations::Ended;

  // Calls.
  Id post(Pending pending);
  Id add(Lock& lock, Pending pending);
  Outcome carry_out(Lock& lock, Pending pending, bool helps);
  void await(Lock& lock, const P2pOperations::Awaited& awaited);
  void wake_for(Clock::time_point deadline);
  // Small messages of callers that wait.
  P2pLink* link_for_one_step(int peer);
  bool send_at_once(std::span<const std::byte> data, const Request& request);
  enum class Soon { came, in_vain, has_to_be_asked_for, not_tried };
  Soon receive_soon(Lock& lock, std::span<std::byte> into, const Request& request);
  // Callers that help.
  bool may_help(Id id) const { return !helper_.helps() && operations_.is_pending(id); }
  std::optional<Ended> help_along(Lock& lock, Id id, const std::function<bool()>& over);
  void look_at(P2pLink& link, Lock& lock);
  template <class IsOver, class Move, class Look>
  void help_until(Lock& lock, IsOver is_over, Move move_some, Look look);
  void stop_helping(std::optional<std::uint32_t> seen, bool moved);

  // The thread.
  void take_turns();
  bool step(Lock& lock);
  bool hand_out(Lock& lock);
  void rest(Lock& lock, std::uint32_t seen);
  void ring_own();
  // The thread, or who helps.
  bool move(P2pLink* only);
  void collect();

  // What cannot end well.
  void look_around();
  void find_gone(const std::map<int, P2pLink::Fate>& fates);
  void find_late();
  void fail(const Failure& failure, Id id, const std::string& detail);
  void fail_rest();
  std::exception_ptr failure_of(const Pending& pending) const;
  std::exception_ptr end_of(const Pending& pending) const;
  template <class Action>
  bool or_fail(Action action);

  const ShmSegment& segment_;
  const ShmWait& wait_;
  const int rank_;
  const std::chrono::microseconds spin_;
  P2pBell bell_;

  P2pCallers callers_;  // whose mutex guards all that follows
  P2pLinks links_;
  P2pCore core_;
  P2pOperations operations_;
  P2pHelper helper_{kLookAround};
  ProgressThreads threads_;
  std::atomic<bool> settled_{false};  // what a caller expects: P2pCore::is_settled()
  bool broken_ = false;               // the group has failed or ended: nobody's memory is touched
};

// An exception means that there is no memory for what arrived, or that it is no message: the group fails.
template <class Action>
bool P2p::or_fail(Action action) {
  try {
    return action();
  } catch (const std::exception&) {
    wait_.record({FailureKind::aborted, rank_});
    fail_rest();
    return false;
  }
}

}  // namespace dtrain
