#pragma once
// One store link: frames out, frames in, in their order, over a connected socket or one that is still connecting.
//
// What is sent is collected and written once a turn of the loop, so that many workers' small requests become one write.
// There is no limit to what may be waiting to be written: its owner looks at full() and sends no more than it must.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store_relay/store_link_wire.h"
#include "rendezvous/tls/link_stream.h"

namespace dtrain {

class StoreLink final : public LinkStream {
 public:
  struct Callbacks {
    // A frame. At the host, a link that has become full may leave a part of a data frame's payload: that part is
    // given again later.
    std::function<void(StoreLinkFrame& frame)> frame;
    // What has come so far has been handed out.
    std::function<void()> turn;
    // The link is no longer full.
    std::function<void()> drained;
    // Once, and the last. Empty reason: the other side has closed the connection.
    std::function<void(const std::string& reason)> closed;
  };

  // `at_host`: hand out no frames while full(), which an edge must not, or both could wait for each other. And say a
  // reply that is the same as the one before, and is still to be written, as `again`.
  StoreLink(boost::asio::io_context& io, UniqueFd socket, std::optional<TlsSession> tls, bool at_host)
      : LinkStream(io, {std::move(socket), std::move(tls)}, kLimits), at_host_(at_host), decoder_(!at_host) {}

  // Greet and begin to read; `received` came before, after any TLS. `connecting`: the socket's connect is still under
  // way.
  void start(Callbacks callbacks, std::string received, bool connecting);
  void send(StoreLinkType type, std::uint64_t number, std::string_view payload = {});
  // What has been sent is still written, what comes is dropped. The owner closes the link in the end.
  using LinkStream::finish;

  // The round that the key of its TLS session is for; none: it has no such session.
  std::optional<std::uint64_t> epoch() const;
  // Why TLS failed, if it did.
  TlsFault fault() const { return bytes().fault(); }
  // Memory of what waits to be written and to be handed out.
  std::size_t held_bytes() const {
    return queue().memory() + bytes().held_bytes() + input_.capacity() + unhandled_.capacity();
  }

 private:
  static constexpr LinkStreamLimits kLimits{
      .read_bytes = kMostReadBytes, .reads_per_turn = 8, .drained_bytes = std::size_t{256} << 10};

  void received(std::string_view bytes) override;
  std::size_t room() override { return waits() ? 0 : kLimits.read_bytes; }
  void turn() override { callbacks_.turn(); }
  void drained() override;
  void closed(LinkBytes::Status, const std::string& reason) override { callbacks_.closed(reason); }

  void hand_out(StoreLinkFrame frame);
  void hand_out_rest();
  bool waits() const { return at_host_ && full(); }
  bool is_again(std::string_view payload) const;

  const bool at_host_;
  Callbacks callbacks_;
  StoreLinkDecoder decoder_;
  std::size_t last_data_ = 0;   // size of the last data frame's payload
  std::size_t after_last_ = 0;  // bytes of the queue from its begin on
  std::string input_;           // read, but not handed out, since the link was full
  std::string unhandled_;       // before that: the rest of a data frame
  std::uint64_t unhandled_number_ = 0;
};

}  // namespace dtrain
