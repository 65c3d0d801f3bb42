#pragma once
// Calls of etcd on an event loop: each is tried at one member after the other until one answers or its time is over.
// Connections are kept for the next call. With a user, the token is fetched when it is needed and again when it has
// expired.
//
// Members that cannot be reached are looked up again by their names, at most once a second: their addresses may change.
//
// A call that reports an error, or that was tried twice, may have been carried out, also more than once: an answer can
// be lost. So whoever writes does it by a txn whose outcome can be read from what is there.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/etcd_wire.h"
#include "rendezvous/http_connection.h"
#include "rendezvous/tls_context.h"

namespace dtrain {

struct EtcdMember {
  std::string name;                    // as it was typed: what its certificate must say
  std::vector<std::string> addresses;  // numeric; none: not known yet
  std::uint16_t port = 0;
};

struct EtcdSettings {
  std::vector<EtcdMember> members;
  std::optional<TlsCertificates> certificates;  // https
  std::string user, password;                   // no user: none
  Duration one_try = std::chrono::seconds(1);   // for one member's answer, then the next one is asked
};

class EtcdClient {
 public:
  using Done = std::function<void(Result<EtcdReply>)>;
  struct WatchCallbacks {
    std::function<void()> began;
    std::function<void()> changed;
    // Once, and the last.
    std::function<void(const Error&)> over;
  };

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
  const std::string& own_address() const { return own_address_; }

  static constexpr std::size_t kMostCalls = 64;

 private:
  class Call;
  struct Idle {
    std::size_t member;
    std::shared_ptr<HttpConnection> connection;
  };

  void start(const std::shared_ptr<Call>& call);
  std::shared_ptr<HttpConnection> take_idle(std::size_t member);
  void connected(int fd);
  void look_up(std::size_t member);
  void give_back(std::size_t member, std::shared_ptr<HttpConnection> connection);

  boost::asio::io_context& io_;
  const EtcdSettings settings_;
  std::vector<std::vector<std::string>> addresses_;  // of each member, as last looked up
  std::vector<MonoTime> look_up_at_;                 // not before
  SteadyClock clock_;
  BesideLoop beside_;
  std::set<std::shared_ptr<Call>> calls_;
  std::shared_ptr<Call> watch_;
  std::vector<Idle> idle_;
  std::size_t good_ = 0;  // the member that answered last
  std::string token_;
  std::string own_address_;
};

}  // namespace dtrain
