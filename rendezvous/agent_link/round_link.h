#pragma once
// An agent's connection to the agent that hosts the rounds. One attempt to connect; its owner decides about another.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/agent_link/round_channel.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/net/dial.h"
#include "rendezvous/net/peer_uid.h"
#include "rendezvous/rounds/link_pulse.h"

namespace dtrain {

class RoundLink {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // Nobody listens there, or the network does not lead there.
    std::function<void(const Error&)> unreachable;
    // The connection is gone; `joined`: after the host had answered. Else the reason says what is there instead, and
    // `fault` what TLS makes of it.
    std::function<void(bool joined, const std::string& reason, TlsFault fault)> lost;
    // The host says which of its rounds is settled (host_lease.h).
    std::function<void(int round)> settled{};
  };
  struct Host {
    std::vector<std::string> addresses;  // numeric, tried in this order
    std::uint16_t port = 0;
    bool across_hosts = false;                   // else it must belong to this user
    std::optional<LinkCredential> credential{};  // TLS, with this
    PulseSettings pulse{};                       // across hosts
    // Last words to `node` before it is sent, over a connection from this address.
    std::function<void(const std::string& own_address, NodeInfo& node)> complete{};
  };

  RoundLink(boost::asio::io_context& io, Callbacks callbacks)
      : io_(io), callbacks_(std::move(callbacks)), dial_(io), hello_(io), pulse_timer_(io) {}
  ~RoundLink() { close(); }
  RoundLink(const RoundLink&) = delete;
  RoundLink& operator=(const RoundLink&) = delete;

  // Connect and say Join. What listens must answer in the protocol within three seconds. No callback from within.
  void connect(const Host& host, const NodeInfo& node);
  // The same over a connection to the host of the rounds in this process.
  void join_own(UniqueFd socket, const NodeInfo& node);
  void send(const RoundMessage& message);
  bool joined() const { return joined_; }
  // Where it has connected to.
  const std::string& address() const { return address_; }
  // When the last stamp of this link's host came, or of the last one's; none: never.
  MonoTime stamped() const { return stamped_; }
  // By then this node's workers must be dead if nothing more is heard of the host; none: it is on this node.
  std::optional<MonoTime> fenced_at() const { return pulse_ ? std::optional(pulse_->fenced_at()) : std::nullopt; }
  void close();

 private:
  void connected(LinkSocket socket, const NodeInfo& node);
  void received(const RoundMessage& message);
  void lost(const std::string& reason);
  Result<void> check_owner();
  void opened(const msg::Open& open);
  void vouch(const msg::Whose& whose);
  void beat();

  boost::asio::io_context& io_;
  Callbacks callbacks_;
  Dial dial_;
  boost::asio::steady_timer hello_;
  boost::asio::steady_timer pulse_timer_;
  std::shared_ptr<RoundChannel> channel_;
  bool same_user_ = true;
  std::optional<PulseSettings> pulse_settings_;
  std::optional<LinkPulse> pulse_;
  MonoTime stamped_{};
  std::int64_t stamp_ = 0;
  int round_ = -1, settled_ = -1;
  std::string address_;
  std::optional<PeerUid> peer_uid_;  // once it was asked
  bool joined_ = false;
};

}  // namespace dtrain
