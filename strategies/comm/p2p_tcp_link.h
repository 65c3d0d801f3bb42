#pragma once
// Messages to a rank of another host and back, over a connection of their own: frames one after another.
#include <optional>

#include "strategies/comm/p2p_link.h"
#include "strategies/comm/tcp_links.h"

namespace dtrain {

class P2pTcpLink final : public P2pLink {
 public:
  using Buffer = std::vector<std::byte>;

  // What it refers to lives longer. Several may share the buffer, which holds nothing between calls.
  P2pTcpLink(TcpLinks& links, const ShmWait& wait, const P2pCore::Limits& limits, Buffer& buffer, int peer);
  static std::size_t buffer_bytes(const P2pCore::Limits& limits);
  ~P2pTcpLink() override;

  // Throws CollectiveError where what comes is no frame.
  bool take(P2pCore& core) override;
  bool send(P2pCore& core) override;
  Fate fate() override;
  pollfd interest() const override;
  void notice(short events) override { readable_ = readable_ || (events & ~POLLOUT) != 0; }
  bool is_clear() const override { return rest_.empty() || deaf_; }
  bool has_arrived() override;

 private:
  using Clock = std::chrono::steady_clock;

  bool write_rest();
  void write(const P2pCore::Outgoing& next);
  bool is_frame(const Frame& frame) const;

  TcpLinks& links_;
  const ShmWait& wait_;
  const P2pCore::Limits limits_;
  Buffer& buffer_;
  const int peer_;
  Socket socket_;
  bool readable_ = false;
  std::vector<std::byte> begun_;             // a frame that has not come whole
  std::vector<std::byte> rest_;              // of a frame that the kernel did not take whole
  std::size_t gone_ = 0;                     // of that
  bool deaf_ = false;                        // the other end reads no more
  std::optional<Clock::time_point> closed_;  // when it was noticed that no more will come
};

}  // namespace dtrain
