#pragma once
// Calls of etcd on an event loop: each is tried at one member after the other until one answers or its time is over.
// Connections are kept for the next call. With a user, the token is fetched when it is needed and again when it has
// expired.
//
// A call that reports an error, or that was tried twice, may have been carried out, also more than once: an answer can
// be lost. So whoever writes does it by a txn whose outcome can be read from what is there.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "rendezvous/base/clock.h"
#include "rendezvous/etcd/etcd_call.h"
#include "rendezvous/etcd/etcd_members.h"
#include "rendezvous/etcd/etcd_wire.h"

namespace dtrain {

class EtcdClient {
 public:
  using Done = EtcdCall::Done;
  using WatchCallbacks = EtcdCall::WatchCallbacks;

  EtcdClient(boost::asio::io_context& io, EtcdSettings settings);
  ~EtcdClient();  // calls nobody back
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // `done` once, within `limit`, never from within. An error's errno_value is that of the last connection that did not
  // come about, else 0. At most kMostCalls at once.
  void call(EtcdRequest request, Duration limit, Done done);
  // One at a time: a new one takes the place of the last. It begins within `limit`.
  void watch(EtcdRequest request, Duration limit, WatchCallbacks callbacks);
  void stop_watching();
  // All of them, without calling back, and the connections.
  void cancel();
  // The address that the last connection came from: the one of this host that leads to etcd. Empty: there was none.
  const std::string& own_address() const { return members_.own_address(); }

  static constexpr std::size_t kMostCalls = 64;

 private:
  std::shared_ptr<EtcdCall> make_call(EtcdRequest request);

  boost::asio::io_context& io_;
  EtcdMembers members_;
  std::set<std::shared_ptr<EtcdCall>> calls_;
  std::shared_ptr<EtcdCall> watch_;
};

}  // namespace dtrain
