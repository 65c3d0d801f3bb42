#pragma once
// One call of etcd, or one watch, on its way from member to member (etcd_client.h).
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/etcd/etcd_members.h"
#include "rendezvous/etcd/etcd_wire.h"
#include "rendezvous/http/http_connection.h"
#include "rendezvous/net/dial.h"

namespace dtrain {

class EtcdCall : public std::enable_shared_from_this<EtcdCall> {
 public:
  using Done = std::function<void(Result<EtcdReply>)>;
  struct WatchCallbacks {
    std::function<void()> began;
    std::function<void()> changed;
    // Once, and the last.
    std::function<void(const Error&)> over;
  };
  using Ended = std::function<void(const std::shared_ptr<EtcdCall>&)>;

  // `members` outlives the call, or cancels it. `ended` is called before the caller hears of the end; not after
  // cancel().
  EtcdCall(boost::asio::io_context& io, EtcdMembers& members, EtcdRequest request, Ended ended);

  // One answer is awaited within `limit`, or, for a watch, its beginning.
  void begin(Duration limit, std::variant<Done, WatchCallbacks> caller);
  // Calls nobody back.
  void cancel();

 private:
  // What is done at one member, over one connection.
  struct Try {
    std::shared_ptr<HttpConnection> connection;
    bool reused = false;   // the connection was kept from an earlier call
    bool logs_in = false;  // the token is asked for, before the request itself
    std::string token;     // that the request is sent with
    // Of a watch: what was heard, and whether anything was.
    EtcdWatchStream watch;
    bool streams = false;
  };

  const EtcdMember& member() const { return members_.settings().members[member_]; }
  std::string where(const std::string& what) const;
  int unconnected() const;

  void drop();
  void connect();
  void dialled(UniqueFd socket);
  void ask();
  void broken(const std::string& why);
  void news(HttpResponse& response, bool last);
  void stream_news(HttpResponse& response, bool last);
  void failed(const EtcdFault& fault);
  void elsewhere(const std::string& why, int error = 0);
  void out_of_time();
  void finish(Result<EtcdReply> result);

  boost::asio::io_context& io_;
  EtcdMembers& members_;
  const EtcdRequest request_;
  Ended ended_;
  std::variant<Done, WatchCallbacks> caller_;
  boost::asio::steady_timer limit_timer_;
  bool over_ = false;

  std::size_t member_;  // that is tried
  Try try_;
  Dial dial_;
  boost::asio::steady_timer try_timer_;

  std::size_t tries_ = 0;
  int logins_ = 0;             // that etcd has refused
  std::optional<Error> last_;  // why the last member could not answer
};

}  // namespace dtrain
