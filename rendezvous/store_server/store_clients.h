#pragma once
// The clients of a store on this node: workers that have connected to its port. StoreClients lets them in, hears their
// greeting, gives what they ask to the backend and writes what it answers, within limits. The workers of other nodes
// are behind StoreLinks. All of it runs on the thread of one io_context.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/peer_uid.h"
#include "rendezvous/store/store_backend.h"
#include "rendezvous/store/store_switch.h"
#include "rendezvous/store_server/silent_clients.h"
#include "rendezvous/store_server/store_options.h"

namespace dtrain {

class StoreClients final : public StoreOutlet {
 public:
  // `listener` is a listening, non-blocking socket, or none; `peer_uid` is set when options.allowed_uid is. Options,
  // backend and switch must live as long.
  StoreClients(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
               const StoreOptions& options, StoreBackend& backend, StoreSwitch& outlets, Callbacks callbacks);
  ~StoreClients() override;

  // Begin to accept.
  void start();
  // Serve a connection whose owner has been checked.
  void adopt(UniqueFd fd);
  // A round begins: close every connection.
  void begin_round();
  void close_all();
  // The backend is ready again.
  void resume();

  // Both are harmless if the client has left.
  void send(ConnectionId connection, std::string_view bytes) override;
  void hand_over(ConnectionId connection, std::string&& bytes) override;
  void close(ConnectionId connection, std::string_view reason) override;
  void describe(StoreStats& stats) const override;
  std::size_t held_bytes() const override { return buffered_bytes_; }

 private:
  class Client;
  using ClientPtr = std::shared_ptr<Client>;

  void admit(UniqueFd fd);
  void let_in(UniqueFd fd);
  void turn_away(std::string_view reason);
  bool make_room(const Error& why);
  bool close_longest_silent(std::string_view reason);

  std::size_t room(const Client& client);
  void received(Client& client, std::string_view input);
  bool greet(Client& client, std::string_view& input);
  void give_away(Client& client, std::string_view received);
  void wrote(Client& client);
  void account(Client& client);
  void close(Client& client, std::string_view reason);
  void forget_if_alone();

  boost::asio::io_context& io_;
  std::optional<Acceptor> acceptor_;  // none: clients come by adopt() alone
  std::optional<PeerUid> peer_uid_;
  const StoreOptions& options_;
  StoreBackend& backend_;
  StoreSwitch& outlets_;
  const Callbacks callbacks_;

  std::unordered_map<ConnectionId, ClientPtr> clients_;
  SilentClients silent_;
  std::vector<ConnectionId> stalled_;  // not read from until the backend is ready
  ConnectionId last_id_ = 0;
  StoreActions actions_;
  std::size_t buffered_bytes_ = 0;  // of all clients: unfinished requests and unsent replies
  bool begun_ = false;              // a round
  std::uint64_t accepted_ = 0, refused_ = 0;
};

}  // namespace dtrain
