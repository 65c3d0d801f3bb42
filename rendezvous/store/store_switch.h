#pragma once
// Brings what the store answers to its connections. There are two kinds: clients of this node, and workers of other
// nodes, whose connections come over links. Each kind has an outlet; the id of a connection says which one.
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/store/store_core.h"
#include "rendezvous/store/store_limits.h"

namespace dtrain {

class StoreOutlet {
 public:
  struct Callbacks {
    // One line to the log.
    std::function<void(std::string_view line)> report;
    // The statistics have changed.
    std::function<void()> publish;
  };

  virtual ~StoreOutlet() = default;
  virtual void send(ConnectionId connection, std::string_view bytes) = 0;
  // The same of much; an outlet that can keep the bytes need not copy them.
  virtual void hand_over(ConnectionId connection, std::string&& bytes) { send(connection, bytes); }
  // An empty reason: no fault.
  virtual void close(ConnectionId connection, std::string_view reason) = 0;
  // Fill in what the outlet knows.
  virtual void describe(StoreStats& stats) const = 0;
  // Unfinished requests and replies that are not sent.
  virtual std::size_t held_bytes() const = 0;
};

// The bit that ids of connections behind links have.
inline constexpr ConnectionId kBehindLink = ConnectionId{1} << 63;

class StoreSwitch {
 public:
  // A longer reply is handed over with its memory. Shorter ones are copied, and the memory of the actions is used
  // again.
  static constexpr std::size_t kMuch = std::size_t{256} << 10;

  // Before anything else. `links` may be null: no connection is behind a link then. Both must live as long.
  void set(StoreOutlet* clients, StoreOutlet* links) {
    clients_ = clients;
    links_ = links;
  }

  // Carry out all actions, in order, and clear them.
  void carry_out(StoreActions& actions) {
    if (actions.send_count() == 1 && actions.size() > kMuch) {
      const ConnectionId to = actions.send_to(0);
      outlet_of(to)->hand_over(to, actions.take_bytes());
    } else {
      for (std::size_t i = 0; i < actions.send_count(); ++i)
        outlet_of(actions.send_to(i))->send(actions.send_to(i), actions.send_bytes(i));
    }
    for (const auto& order : actions.closes()) outlet_of(order.connection)->close(order.connection, order.reason);
    actions.clear();
  }

  void describe(StoreStats& stats) const {
    clients_->describe(stats);
    if (links_ != nullptr) links_->describe(stats);
  }

  std::size_t held_bytes() const { return clients_->held_bytes() + (links_ != nullptr ? links_->held_bytes() : 0); }

 private:
  StoreOutlet* outlet_of(ConnectionId connection) const { return (connection & kBehindLink) != 0 ? links_ : clients_; }

  StoreOutlet* clients_ = nullptr;
  StoreOutlet* links_ = nullptr;
};

}  // namespace dtrain
