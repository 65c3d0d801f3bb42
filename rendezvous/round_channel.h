#pragma once
// One connection of the agent link on an event loop: messages out, messages in. Bounded both ways.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/link_socket.h"
#include "rendezvous/round_wire.h"

namespace dtrain {

class RoundChannel : public std::enable_shared_from_this<RoundChannel> {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // Once. Empty reason: the peer has closed the connection.
    std::function<void(const std::string& reason)> closed;
  };

  // `socket`: connected.
  RoundChannel(boost::asio::io_context& io, LinkSocket socket)
      : socket_(io, socket.fd.release()), bytes_(std::move(socket.tls)) {}

  // Send the greeting and begin to read; `received` came before (as plaintext). No callback from within.
  void start(Callbacks callbacks, std::string_view received = {});
  // Never calls back from within.
  void send(const RoundMessage& message);
  // Take in what has come but was not read yet, before the peer is judged by its silence: whoever was kept from running
  // has its timers go off first. Calls back; only from a turn of the loop of its own, as a timer's.
  void read_waiting();
  // Ends the connection without a callback, what was sent before is delivered if the peer reads it.
  void close();
  bool open() const { return socket_.is_open(); }
  bool greeted() const { return decoder_.greeted(); }
  int fd() { return socket_.native_handle(); }
  // It was closed by the peer's process or by its death, not by the network.
  bool peer_ended() const { return bytes_.peer_ended(); }
  // Why TLS failed, if it did.
  TlsFault fault() const { return bytes_.fault(); }

 private:
  void write(std::string_view bytes);
  void wait_writable();
  void wait_readable();
  void readable();
  LinkBytes::Status read();
  bool decode();
  void lost(const std::string& reason);
  void fail_soon(const std::string& reason);

  boost::asio::posix::stream_descriptor socket_;
  LinkBytes bytes_;
  Callbacks callbacks_;
  RoundDecoder decoder_;
  std::string output_;  // what the socket would not take yet
  bool waits_writable_ = false;
  bool peer_left_ = false;  // it takes nothing more
};

}  // namespace dtrain
