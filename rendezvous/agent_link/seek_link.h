#pragma once
// The connections over which nodes that have lost their host choose another (succession_core.h): SeekLink leads from
// such a node to one candidate, SeekDesk has a candidate's ends of them.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/agent_link/round_channel.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/net/dial.h"

namespace dtrain {

// Connects again and again while it exists.
class SeekLink {
 public:
  struct Options {
    std::string address;  // numeric
    std::uint16_t port = 0;
    std::string job;
    std::optional<LinkCredential> credential{};  // none: plain
    std::function<msg::Seek()> seek;             // what to say
    std::function<void(const RoundMessage&)> message;
  };
  SeekLink(boost::asio::io_context& io, Options options);
  ~SeekLink();
  SeekLink(const SeekLink&) = delete;
  SeekLink& operator=(const SeekLink&) = delete;

  // What has changed is said again.
  void seek_again();
  void send(const RoundMessage& message);
  // The last time nobody listened there: that agent has ended.
  bool refused() const { return refused_; }

 private:
  void connect();
  void connected(Dial::Connection connection);
  void lost();

  boost::asio::io_context& io_;
  const Options options_;
  Dial dial_;
  boost::asio::steady_timer again_;
  std::chrono::milliseconds after_;
  bool refused_ = false;
  std::shared_ptr<RoundChannel> channel_;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

class SeekDesk {
 public:
  struct Callbacks {
    std::function<void(const msg::Seek&, bool here)> seeker;
    std::function<void(VoterId, const msg::Vote&)> vote;
    // What a seeker is told at once; nothing: no host is known here.
    std::function<std::optional<msg::HostAt>()> host_at;
  };
  SeekDesk(boost::asio::io_context& io, Callbacks callbacks) : io_(io), callbacks_(std::move(callbacks)) {}
  ~SeekDesk();
  SeekDesk(const SeekDesk&) = delete;
  SeekDesk& operator=(const SeekDesk&) = delete;

  // A new connection, with the bytes (plaintext) that were read from it.
  void adopt(LinkSocket socket, const std::string& received);
  // To one voter; 0: to everybody who seeks.
  void send(VoterId to, const RoundMessage& message);

 private:
  struct Peer {
    std::shared_ptr<RoundChannel> channel;
    std::unique_ptr<boost::asio::steady_timer> greeting;  // until it has said what it seeks
    std::optional<msg::Seek> seek;
  };
  void received(std::uint64_t id, const RoundMessage& message);
  void gone(std::uint64_t id);

  boost::asio::io_context& io_;
  const Callbacks callbacks_;
  std::map<std::uint64_t, Peer> peers_;
  std::uint64_t last_id_ = 0;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace dtrain
