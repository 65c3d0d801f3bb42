#pragma once
// Point-to-point messages among the ranks of a group: P2pCore decides what goes where, this moves it, over a link to
// each rank (p2p_link.h): two rings in shared memory, or a connection to another host.
//
// A thread, there from the first call on or with the first connection, moves bytes, waits for the others and notices
// what the collectives notice: a rank that ended or left, a failure of the group, a deadline. Calls write what fits
// themselves, so that a small message is on its way when send() returns. The thread always empties the links, whatever
// was called for: no order of calls makes two ranks wait for each other, but sends and receives that do not match.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "strategies/comm/p2p_bell.h"
#include "strategies/comm/p2p_link.h"
#include "strategies/comm/shm_wait.h"
#include "strategies/comm/tcp_links.h"

namespace dtrain {

class P2p {
 public:
  // What it refers to lives longer. `spin`: before the thread sleeps, or 0 where ranks outnumber cores: then who waits
  // for a message yields meanwhile (kYielding).
  P2p(const ShmSegment& segment, const PeerWatch& watch, const ShmWait& wait, int rank, std::chrono::microseconds spin);
  // As end().
  ~P2p();
  // In a group over several hosts, before the first call: sleep on a pipe (p2p_bell.h). Throws as P2pBell::use_pipes().
  void use_pipes(P2pBell::Pipe own, const std::vector<PeerFacts>& facts) { bell_.use_pipes(std::move(own), facts); }
  // And then, when all ranks of this host do: the ranks of others. `links` lives until end().
  void reach_hosts(TcpLinks& links, const std::vector<int>& ranks);
  P2p(const P2p&) = delete;
  P2p& operator=(const P2p&) = delete;

  struct Outcome {
    std::exception_ptr error;  // a CollectiveError; the group is then broken for all ranks. Null: done
    int peer = P2pCore::kAny;  // whose message it was
  };
  // Called once, on the thread or within the call. What may take long in it begins with make_way(): another thread then
  // goes on.
  using MakeWay = std::function<void()>;
  using Done = std::function<void(const Outcome&, const MakeWay& make_way)>;
  struct Call {
    int peer = P2pCore::kAny;  // another rank; any for receive()
    P2pCore::Label label;      // type and size must be those of the other side
    std::chrono::milliseconds timeout{};
    Done done;
  };

  // Any thread, no collectives. The memory stays in place until done() was called. A send is done when all of it is in
  // shared memory, the kernel's or received. Throws std::runtime_error after end(), or where kMaxPending operations
  // wait already and none of them ends in time.
  static constexpr std::size_t kMaxPending = 1U << 16;
  using Id = P2pCore::Id;  // of an operation
  Id send(std::span<const std::byte> data, Call call);
  Id receive(std::span<std::byte> into, Call call);

  // The same, and wait for the end on this thread; call.done is not used. What the interrupt check (interrupt.h) throws
  // ends the group.
  Outcome send_now(std::span<const std::byte> data, const Call& call);
  Outcome receive_now(std::span<std::byte> into, const Call& call);

  // For who waits for the message: move bytes on this thread, which spares a wake-up, until `over()`, or as long as the
  // thread looks before it sleeps. done() may be called within. Any thread; one at a time does so, for others it
  // returns at once.
  void help(Id id, const std::function<bool()>& over);

  // Pending operations end with FailureKind::aborted, or the group's failure; returns when all callbacks have, and what
  // was sent has reached the other hosts, for which it waits no longer than two seconds. Not from a callback.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  // Of a call that waits for its own operation.
  struct Awaited {
    Outcome outcome;
    std::atomic<bool> over{false};
  };
  struct Pending {
    bool sends;
    Call call;
    Clock::time_point deadline;
    std::span<const std::byte> data;  // of a send
    std::span<std::byte> into;        // of a receive
    Awaited* awaited = nullptr;       // then there is no done()
    std::string name() const;
  };
  struct Ended {
    Id id;
    Done done;
    Outcome outcome;
  };

  Id post(Pending pending);
  P2pLink* link_for_one_step(int peer);
  bool send_at_once(std::span<const std::byte> data, const Call& call);
  enum class Soon { came, in_vain, has_to_be_asked_for, not_tried };
  Soon receive_soon(std::unique_lock<std::mutex>& lock, std::span<std::byte> into, const Call& call);
  Outcome carry_out(std::unique_lock<std::mutex>& lock, Pending pending, bool helps);
  Id add(std::unique_lock<std::mutex>& lock, Pending pending);
  void wake_for(Clock::time_point deadline);
  std::unique_lock<std::mutex> lock_as_caller();
  void let_callers_in(std::unique_lock<std::mutex>& lock);

  void start_thread();
  void progress_loop();
  bool step(std::unique_lock<std::mutex>& lock);
  bool hand_out(std::unique_lock<std::mutex>& lock);
  void make_way();
  void rest(std::unique_lock<std::mutex>& lock, std::uint32_t seen);
  void ring_own();

  std::vector<pollfd> interests() const;
  void look_at_connections();
  bool move();
  bool move(P2pLink& link);
  template <class Action>
  bool or_fail(Action action);
  bool may_help(Id id) const;
  std::optional<Ended> help_along(std::unique_lock<std::mutex>& lock, Id id, const std::function<bool()>& over);
  void look_at(P2pLink& link, std::unique_lock<std::mutex>& lock);
  Patience patience_of_caller() const { return Patience(spin_.count() > 0 ? spin_ : kYielding); }
  // `seen`: how often the bell was rung when this thread looked last; none: it has not looked.
  void stop_helping(std::optional<std::uint32_t> seen, bool moves);
  std::optional<Ended> take_ended(Id id);
  void collect();
  void look_around();
  void heed();
  void find_gone(const std::map<int, P2pLink::Fate>& fates);
  void find_late();
  void take_leave();

  void finish(Id id, const Outcome& outcome);
  void fail(const Failure& failure, Id id, const std::string& detail);
  void fail_rest();
  std::exception_ptr failure_of(const Pending& pending) const;
  std::exception_ptr end_of(const Pending& pending) const;

  int some_other() const { return links_.begin()->first; }

  const ShmSegment& segment_;
  const ShmWait& wait_;
  const int rank_;
  const std::chrono::microseconds spin_;
  P2pBell bell_;
  TcpLinks* elsewhere_ = nullptr;  // to other hosts, if there are any
  std::map<int, std::unique_ptr<P2pLink>> links_;

  std::mutex mutex_;  // guards all that follows
  struct Signals {
    std::condition_variable role, room, turn, over;
  };
  Signals signals_;
  std::atomic<int> callers_{0};  // that wait for the mutex
  P2pCore core_;
  std::map<Id, Pending> pending_;
  std::deque<Ended> ended_operations_;  // whose done() is to be called
  Id last_ = 0;
  bool broken_ = false;
  bool ended_ = false;
  bool quiet_ = true;     // since the thread last slept
  bool running_ = false;  // a thread steps
  int idle_ = 0;          // threads that could be the next one to
  int helpers_ = 0;       // threads in help() or that wait for their operation, one of which moves bytes while helped_
  bool helped_ = false;
  bool lingers_ = false;  // a wait has ended well since the thread last went to sleep
  Clock::time_point helped_until_ = Clock::time_point::min();
  bool naps_ = false;                 // the thread, and what comes from other ranks does not wake it
  std::atomic<bool> settled_{false};  // what a caller expects: P2pCore::is_settled()
  Clock::time_point next_look_, wakes_at_;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain
