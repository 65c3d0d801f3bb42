#pragma once
// The backend of an edge: a node whose workers use the store of another node. It forwards their bytes over one link and
// gives back what comes. One link serves one round; when it is lost, so are the connections behind it.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/store/store_backend.h"
#include "rendezvous/store_relay/store_link.h"
#include "rendezvous/store_relay/store_remote.h"

namespace dtrain {

class StoreRelay final : public StoreBackend {
 public:
  struct Callbacks {
    // Bytes for a client; the end of one, with the reason.
    std::function<void(ConnectionId, std::string_view)> reply;
    std::function<void(ConnectionId, std::string_view)> end;
    // It is ready again.
    std::function<void()> ready;
    // What has come so far has been handed out.
    std::function<void()> turn;
    // closed_because() says why: every client has to go.
    std::function<void()> lost;
  };

  StoreRelay(boost::asio::io_context& io, const StoreRemote& remote);
  // Before anything else.
  void set(Callbacks callbacks) { callbacks_ = std::move(callbacks); }

  // Drop the link, and connect for this round. There must be no clients.
  void begin_round(std::uint64_t round);
  // Drop the link and turn clients away.
  void stop();

  void connect(ConnectionId connection) override;
  void receive(ConnectionId connection, std::string_view& input, StoreActions& out) override;
  void disconnect(ConnectionId connection) override;
  std::uint64_t round() const { return round_; }
  bool ready() const override { return up_ && !link_->full(); }
  std::string_view closed_because() const override { return closed_because_; }
  std::size_t held_bytes(ConnectionId) const override { return 0; }
  void describe(StoreStats& stats) const override;

 private:
  void attempt();
  void attempt_again(const std::string& reason);
  Result<void> make_link();
  void received(StoreLinkFrame& frame);
  void welcomed();
  void lost(const std::string& reason);

  boost::asio::io_context& io_;
  const StoreRemote& remote_;
  Callbacks callbacks_;
  std::shared_ptr<StoreLink> link_;
  boost::asio::steady_timer deadline_;  // of an attempt, or until the next one
  int attempts_ = 0;
  std::uint64_t round_ = 0;
  bool up_ = false;
  std::vector<ConnectionId> early_;  // greeted before the link was up
  std::string closed_because_ = "no round has begun";
  std::uint64_t forwarded_bytes_ = 0;
};

}  // namespace dtrain
