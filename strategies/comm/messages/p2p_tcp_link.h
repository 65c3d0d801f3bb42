#pragma once
// Messages to a rank of another host and back, over a connection of their own: frames one after another.
#include <optional>

#include "strategies/comm/messages/p2p_inbox.h"
#include "strategies/comm/messages/p2p_link.h"
#include "strategies/comm/tcp/tcp_links.h"

namespace dtrain {

class P2pTcpLink final : public P2pLink {
 public:
  // What it refers to lives longer.
  P2pTcpLink(TcpLinks& links, const ShmWait& wait, int peer)
      : links_(links), wait_(wait), peer_(peer), socket_(links.take_messages(peer)), inbox_(peer) {}
  ~P2pTcpLink() override;

  // Throws CollectiveError where what comes is no frame.
  bool take(P2pCore& core) override;
  bool send(P2pCore& core) override;
  void cease() override;
  Fate fate() override;
  pollfd interest() const override;
  void notice(short events) override { readable_ = readable_ || (events & ~POLLOUT) != 0; }
  bool is_clear() const override { return !under_way_ || deaf_; }
  bool has_arrived() override;

 private:
  using Clock = std::chrono::steady_clock;

  bool push();

  TcpLinks& links_;
  const ShmWait& wait_;
  const int peer_;
  Socket socket_;

  bool readable_ = false;
  P2pInbox inbox_;
  std::optional<Clock::time_point> closed_;  // when it was noticed that no more will come

  std::optional<P2pCore::Outgoing> under_way_;  // a frame that the kernel has not taken whole
  std::size_t pushed_ = 0;                      // of that
  bool deaf_ = false;                           // the other end reads no more
  bool ceased_ = false;
};

}  // namespace dtrain
