#pragma once
// The connections of one rank to all ranks of other hosts. One connection carries the messages of collectives, each
// with a header that says which call it belongs to; a second one carries words about failures; a third one is for the
// messages that the program sends (p2p_tcp_link.h). One thread at a time calls exchange(); any thread may call the
// rest.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/comm/memory/collective_call.h"
#include "strategies/comm/tcp/tcp_connect.h"

namespace dtrain {

class TcpLinks {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Collective; see connect_ranks(). `wait` keeps the failures of this rank and the others of its host.
  TcpLinks(GroupStore& store, int rank, const std::vector<int>& others, ShmWait& wait, Deadline deadline);

  struct Send {
    int peer;
    std::span<const std::byte> data;
  };
  struct Receive {
    int peer;
    std::span<std::byte> into;
  };
  // Runs all sends and receives at once. Returns when every receive is complete and the kernel has taken every send.
  // The peers must run the counterpart, within the same call and with the same sizes. Between two ranks messages keep
  // their order. Throws CollectiveError, also if a peer's message belongs to another call.
  void exchange(const CollectiveCall& call, const std::vector<Send>& sends, const std::vector<Receive>& receives);

  // Read the words of the others. Throws the failure that a word tells of.
  void heed(const std::string& during);
  // Tell the ranks that have asked for this rank that it waits.
  void answer() noexcept;
  // Add the descriptors on which to poll() for words.
  void watch_words(std::vector<pollfd>& polls) const;
  // Tell all others of the group's failure, if there is one and they were not told before.
  void tell() noexcept;
  // Tell all others that this rank leaves: it will send nothing more.
  void leave() noexcept;

  // What is known of the rank at the other end. A rank that left or is gone may have sent messages before; of an
  // unreachable one, no message is on its way any more.
  enum class State { here, left, gone, unreachable };
  State state(int peer) const { return links_.at(peer).state; }
  // A rank's last word comes on a connection of its own: this much later, at most, than the end of another connection.
  static constexpr std::chrono::seconds kLastWord{1};

  // Hand over the connection for the program's messages. Called once for each peer.
  Socket take_messages(int peer) { return std::move(links_.at(peer).lanes.messages); }

 private:
  struct Word;
  struct Link {
    Lanes lanes;
    std::atomic<State> state = State::here;
    std::atomic<bool> asks{false}, answered{false};  // the peer has asked and has no answer; it has answered this rank
    std::vector<std::byte> heard;                    // the bytes of a word that is not complete
  };
  class Exchange;

  void heed(int peer, Link& link, const std::string& during);
  void understand(int peer, Link& link, const std::string& during);
  void ask(const std::vector<int>& peers) noexcept;
  void say(const Link& link, const Word& word) noexcept;

  const int rank_;
  ShmWait& wait_;
  std::map<int, Link> links_;
  std::mutex heeding_;
  std::atomic<bool> told_{false};
};

}  // namespace dtrain
