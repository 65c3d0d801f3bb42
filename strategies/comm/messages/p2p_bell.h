#pragma once
// What a rank's thread sleeps on, and the others of its host ring: a word in the group's memory. Where there are
// connections to sleep on too, it sleeps on a pipe instead, and who rings writes into that: nobody can sleep on a word
// and on descriptors at once. The others open it as they do the memory (shm_segment.h).
#include <poll.h>

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "strategies/comm/bootstrap/peers.h"
#include "strategies/comm/memory/futex.h"
#include "strategies/comm/memory/shm_segment.h"
#include "strategies/comm/tcp/socket.h"

namespace dtrain {

class P2pBell {
 public:
  // `yields`: between looks it leaves its core to others, as where ranks outnumber cores.
  P2pBell(const ShmSegment& segment, int rank, bool yields) : segment_(segment), rank_(rank), yields_(yields) {}

  struct Pipe {
    Socket reads, writes;
  };
  // Before the host's ranks meet: make this rank's pipe, which they find in its block.
  static Pipe hang(const ShmSegment& segment, int rank);
  // After that, and before anybody sleeps. Throws CollectiveError where a rank has ended, std::runtime_error where its
  // pipe cannot be opened.
  void use_pipes(Pipe own, const std::vector<PeerFacts>& facts);

  // Any process. Of a rank of this host.
  void ring(int rank) const;
  // How often this rank's was rung.
  std::uint32_t rung() const;
  // One thread of this rank at a time looks at rung() itself from here to resume(): until then the sleeper is not
  // woken.
  void relieve() const { segment_.rank(rank_).asleep.store(0, std::memory_order_seq_cst); }
  // The sleeper is woken again, and now if it was rung since `seen`.
  void resume(std::uint32_t seen) const;
  // Look until it was rung since `seen`, one of `polls` is ready, or `over()`. True: one of the first two. False also
  // where patience is over.
  bool spin(std::uint32_t seen, Patience& patience, std::vector<pollfd>& polls,
            const std::function<bool()>& over) const;
  // Return when it was rung since `seen`, one of `polls` is ready (see revents), or the time is over; spin at first.
  // Not `wakes`: who rings from then on wakes nobody.
  void wait(std::uint32_t seen, std::chrono::nanoseconds spin, std::chrono::nanoseconds limit,
            std::vector<pollfd>& polls, bool wakes) const;

 private:
  void wake(int rank) const;
  void await(std::uint32_t seen, std::chrono::nanoseconds limit, std::vector<pollfd>& polls) const;

  const ShmSegment& segment_;
  const int rank_;
  const bool yields_;
  Socket own_;                   // to read from; none: the words alone are used
  std::map<int, Socket> pipes_;  // to write to, of each rank of the host
};

}  // namespace dtrain
