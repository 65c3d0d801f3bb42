#pragma once
// The messages of rounds on one connection between agents. Bounded both ways.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/rounds/round_wire.h"
#include "rendezvous/tls/link_stream.h"

namespace dtrain {

class RoundChannel final : public LinkStream {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // Once. Empty reason: the peer has closed the connection.
    std::function<void(const std::string& reason)> closed;
  };

  // `socket`: connected.
  RoundChannel(boost::asio::io_context& io, LinkSocket socket) : LinkStream(io, std::move(socket), kLimits) {}

  // Send the greeting and begin to read. `received`: plaintext that came before. No callback is called from within.
  void start(Callbacks callbacks, std::string_view received = {});
  // Never calls back from within.
  void send(const RoundMessage& message);
  // Take in what has come but was not read yet, before the peer is judged by its silence: the timers of a process that
  // was kept from running go off first. Calls back; only from a turn of the loop of its own, as a timer's.
  void read_waiting();
  bool greeted() const { return decoder_.greeted(); }
  // The peer's process has closed the connection, or has died; it was not the network.
  bool peer_ended() const { return bytes().peer_ended(); }
  // Why TLS failed, if it did.
  TlsFault fault() const { return bytes().fault(); }

 private:
  static constexpr LinkStreamLimits kLimits{};

  void received(std::string_view bytes) override;
  void closed(LinkBytes::Status how, const std::string& reason) override;
  void put(std::string_view bytes);
  bool decode();

  Callbacks callbacks_;
  RoundDecoder decoder_;
};

}  // namespace dtrain
