#pragma once
// The connections of one rank to all ranks of other hosts, and what goes over them: the messages of collectives, each
// with a header that says which call it belongs to, and words about failures. exchange() is for one thread at a time,
// the rest for any. A third connection is for the messages that the program sends (p2p_tcp_link.h).
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

#include "strategies/comm/call.h"
#include "strategies/comm/tcp_door.h"

namespace dtrain {

class TcpLinks {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Collective; see connect_ranks(). `wait` is where failures are kept, for this rank and the others of its host.
  TcpLinks(MeetingPlace& place, int rank, const std::vector<int>& others, ShmWait& wait, Deadline deadline);

  struct Send {
    int peer;
    std::span<const std::byte> data;
  };
  struct Receive {
    int peer;
    std::span<std::byte> into;
  };
  // All of these at the same time; return when what is to be received is here, and what is to be sent is the kernel's.
  // The peers must do the counterpart, within the same call and with the same sizes. Between two ranks messages keep
  // their order. Throws CollectiveError: also where the peer's message is of another call.
  void exchange(const Call& call, const std::vector<Send>& sends, const std::vector<Receive>& receives);

  // Look for words of the others. Throws the failure that one tells of.
  void heed(const std::string& during);
  // Tell those that have asked for this rank that it waits.
  void answer() noexcept;
  // Add what to poll() for such words.
  void watch_words(std::vector<pollfd>& polls) const;
  // Tell all others of the group's failure, if it has one, the first time.
  void tell() noexcept;
  // Tell all others that this rank leaves: it will send no more.
  void leave() noexcept;

  // What is known of the rank at the other end. One that left or is gone may have sent messages before.
  enum class State { here, left, gone, unreachable };  // the last: nothing is on its way from it any more
  State state(int peer) const { return links_.at(peer).state; }
  // What a rank says last comes on a connection of its own: how long that may be behind the end of another one.
  static constexpr std::chrono::seconds kLastWord{1};

  // Give away the connection for messages. Once.
  Socket take_messages(int peer) { return std::move(links_.at(peer).lanes.messages); }

 private:
  struct Word;
  struct Link {
    Lanes lanes;
    std::atomic<State> state = State::here;
    std::atomic<bool> asks{false}, answered{false};  // the peer, since it was answered; this rank's last question
    std::vector<std::byte> heard;                    // the beginning of a word
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
