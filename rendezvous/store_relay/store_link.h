#pragma once
// One store link on an event loop: frames out, frames in, over a connected socket or one that is still connecting, in
// clear or through a TLS session. Used from the loop's thread; no callback is called from within a call.
//
// What is sent is collected and written once a turn of the loop, so that many workers' small requests become one write.
// There is no limit to what may be waiting to be written: its owner looks at full() and sends no more than it must.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/byte_queue.h"
#include "rendezvous/link_socket.h"
#include "rendezvous/store_link_wire.h"

namespace dtrain {

class StoreLink : public std::enable_shared_from_this<StoreLink> {
 public:
  struct Callbacks {
    // A frame. At the host, a link that has become full may leave a part of a data frame's payload: it is
    // given again later.
    std::function<void(StoreLinkFrame& frame)> frame;
    // What has come so far has been handed out.
    std::function<void()> turn;
    // It is no longer full.
    std::function<void()> drained;
    // Once, and the last. Empty reason: the other side has closed the connection.
    std::function<void(const std::string& reason)> closed;
  };

  // `at_host`: hand out no frames while full(), which an edge must not, or both could wait for each other. And say a
  // reply that is the same as the one before, and is still to be written, as `again`.
  StoreLink(boost::asio::io_context& io, UniqueFd socket, std::optional<TlsSession> tls, bool at_host)
      : socket_(io, socket.release()), bytes_(std::move(tls)), at_host_(at_host), decoder_(!at_host) {}

  // Greet and begin to read; `received` came before, after any TLS. `connecting`: the socket's connect is still under
  // way.
  void start(Callbacks callbacks, std::string received, bool connecting);
  void send(StoreLinkType type, std::uint64_t number, std::string_view payload = {});
  // What has been sent is still written, what comes is dropped. The owner closes it in the end.
  void finish();
  // At once, without a callback.
  void close();

  bool open() const { return socket_.is_open(); }
  // The round that the key of its TLS session is for; none: it has no such session.
  std::optional<std::uint64_t> epoch() const;
  // More is waiting to be written than a link should hold; until most of it has been.
  bool full() const { return full_; }
  // Memory of what waits to be written and to be handed out.
  std::size_t held_bytes() const {
    return output_.memory() + bytes_.held_bytes() + input_.capacity() + unhandled_.capacity();
  }

 private:
  void wait_connected();
  void flush_soon();
  void flush();
  void written();
  void wait_writable();
  void wait_readable();
  void readable();
  void take(std::string_view bytes);
  void hand_out(StoreLinkFrame frame);
  void hand_out_rest();
  bool waits() const { return at_host_ && full_; }
  bool is_again(std::string_view payload) const;
  void lost(const std::string& reason);

  boost::asio::posix::stream_descriptor socket_;
  LinkBytes bytes_;
  const bool at_host_;
  Callbacks callbacks_;
  StoreLinkDecoder decoder_;
  ByteQueue output_;
  std::size_t last_data_ = 0;   // size of the last data frame's payload
  std::size_t after_last_ = 0;  // bytes of output from its begin on
  std::string input_;           // read, but not handed out, since the link was full
  std::string unhandled_;       // before it: the rest of a data frame
  std::uint64_t unhandled_number_ = 0;
  bool connected_ = false;
  bool full_ = false;
  bool finishing_ = false;
  bool peer_left_ = false;  // it takes nothing more
  bool flush_posted_ = false;
  bool waits_readable_ = false;
  bool waits_writable_ = false;
};

}  // namespace dtrain
