#pragma once
// One end of an `engine` link (relay_frames.h).
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/agent_link/relay_frames.h"
#include "rendezvous/tls/link_stream.h"

namespace dtrain {

class RelayLink final : public LinkStream {
 public:
  struct Callbacks {
    // False: no more after this one until go_on().
    std::function<bool(const RelayFrame&)> frame;
    // It is no longer full().
    std::function<void()> drained;
    // Once, and never from within a call. Empty reason: the peer has closed the connection.
    std::function<void(const std::string& reason)> closed;
  };

  // `socket`: connected. The kernel looks whether the other host is there yet.
  RelayLink(boost::asio::io_context& io, LinkSocket socket);

  // `received`: plaintext that came before. Nothing is heard until go_on().
  void start(Callbacks callbacks, std::string_view received = {});
  // Before the peer has said anything, no more than kTlsEarlyBytes.
  void send(RelayFrame::What what, std::string_view bytes);
  // No callback is called from within.
  void go_on();
  using LinkStream::finish;

 private:
  static constexpr LinkStreamLimits kLimits{.read_bytes = 65536, .drained_bytes = 65536};

  void received(std::string_view bytes) override;
  std::size_t room() override { return paused_ ? 0 : kLimits.read_bytes; }
  void drained() override { callbacks_.drained(); }
  void closed(LinkBytes::Status how, const std::string& reason) override;
  bool decode();

  Callbacks callbacks_{};
  RelayDecoder decoder_{};
  bool paused_ = true;
};

}  // namespace dtrain
