#include "rendezvous/etcd/etcd_call.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/base/printable.h"
#include "rendezvous/net/listen.h"

namespace dtrain {
namespace {
constexpr auto kPause = std::chrono::milliseconds(50);  // when no member can do it
}  // namespace

EtcdCall::EtcdCall(boost::asio::io_context& io, EtcdMembers& members, EtcdRequest request, Ended ended)
    : io_(io),
      members_(members),
      request_(std::move(request)),
      ended_(std::move(ended)),
      limit_timer_(io),
      member_(members.good),
      dial_(io),
      try_timer_(io) {}

void EtcdCall::begin(Duration limit, std::variant<Done, WatchCallbacks> caller) {
  caller_ = std::move(caller);
  limit_timer_.expires_after(limit);
  limit_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec && !self->over_) self->out_of_time();
  });
  boost::asio::post(io_, [self = shared_from_this()] {
    if (!self->over_) self->connect();
  });
}

void EtcdCall::cancel() {
  over_ = true;
  drop();
  limit_timer_.cancel();
  caller_ = Done();
}

// Whoever answers there may say anything.
std::string EtcdCall::where(const std::string& what) const {
  return fmt::format("etcd at {}: {}", printable(address_text(member().name, member().port), 300),
                     printable(what, 400));
}

// The errno_value of a try that no answer has ended.
int EtcdCall::unconnected() const { return try_.connection ? 0 : ETIMEDOUT; }

// Leave the connection, if there is one.
void EtcdCall::drop() {
  dial_.cancel();
  try_timer_.cancel();
  if (try_.connection) try_.connection->close();
  try_.connection.reset();
}

void EtcdCall::connect() {
  try_timer_.expires_after(members_.settings().one_try);
  try_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec && !self->over_) self->elsewhere(self->where("no answer in time"), self->unconnected());
  });
  try_ = Try();
  try_.connection = members_.take_idle(member_);
  try_.reused = try_.connection != nullptr;
  if (try_.connection) return ask();
  const auto& addresses = members_.addresses(member_);
  if (addresses.empty()) return elsewhere(fmt::format("etcd: there is no host {} yet", member().name), EADDRNOTAVAIL);
  dial_.start(addresses, member().port, [self = shared_from_this()](Result<Dial::Connection> dialled) {
    if (self->over_) return;
    if (!dialled) return self->elsewhere("etcd: " + dialled.error().message, dialled.error().errno_value);
    self->dialled(std::move(dialled->socket));
  });
}

void EtcdCall::dialled(UniqueFd socket) {
  members_.connected(socket.get());
  LinkSocket link{std::move(socket)};
  if (const auto& certificates = members_.settings().certificates) {
    auto tls = TlsSession::client(*certificates, member().name);
    if (!tls) return finish(tls.error());
    link.tls = std::move(*tls);
  }
  try_.connection = std::make_shared<HttpConnection>(io_, std::move(link));
  ask();
}

// The request, or before it one for the token.
void EtcdCall::ask() {
  const EtcdSettings& settings = members_.settings();
  try_.logs_in = !settings.user.empty() && members_.token.empty();
  try_.token = members_.token;
  const EtcdRequest next = try_.logs_in ? etcd_authenticate(settings.user, settings.password) : request_;
  const std::string host = address_text(member().name, member().port);
  try_.connection->ask(encode(HttpPost{host, next.path, try_.token, next.body}), kEtcdReplyBytes,
                       {[self = shared_from_this()](HttpResponse& response, bool last) {
                          if (!self->over_) self->news(response, last);
                        },
                        [self = shared_from_this()](const std::string& why) {
                          if (!self->over_) self->broken(why);
                        }});
}

void EtcdCall::broken(const std::string& why) {
  if (try_.streams) return finish(Error{ErrorKind::system, where(why)});
  // A connection that was kept may have been closed by the time it is used: that says nothing about the member.
  if (!try_.reused) {
    const char* hint = members_.settings().certificates ? "; does it take only http?" : "; does it need https?";
    return elsewhere(where(why + (why == HttpResponse::kClosed ? hint : "")));
  }
  drop();
  connect();
}

void EtcdCall::news(HttpResponse& response, bool last) {
  const bool watches = std::holds_alternative<WatchCallbacks>(caller_);
  if (watches && !try_.logs_in && response.has_head() && response.code() == 200) return stream_news(response, last);
  if (!last) return;
  try_timer_.cancel();
  auto answer = parse_etcd_reply(response.code(), response.take_body());
  if (auto* fault = std::get_if<EtcdFault>(&answer)) return failed(*fault);
  if (try_.logs_in) {
    members_.token = std::get<EtcdReply>(answer).token;
    if (members_.token.empty()) return finish(Error{ErrorKind::system, where("it gives no token")});
    if (!try_.connection->open()) return drop(), connect();
    return ask();
  }
  members_.good = member_;
  members_.give_back(member_, std::exchange(try_.connection, nullptr));
  finish(std::move(std::get<EtcdReply>(answer)));
}

void EtcdCall::stream_news(HttpResponse& response, bool last) {
  try_.streams = true;
  members_.good = member_;
  const auto news = try_.watch.put(response.take_body());
  if (news.began) {
    try_timer_.cancel();
    limit_timer_.cancel();
  }
  if (news.over) return finish(Error{ErrorKind::system, where(news.over->message)});
  // Whoever is called may end this.
  const auto callbacks = std::get<WatchCallbacks>(caller_);
  if (news.began && callbacks.began) callbacks.began();
  if (news.changed && !over_) callbacks.changed();
  if (last && !over_) finish(Error{ErrorKind::system, where("it has ended the watch")});
}

void EtcdCall::failed(const EtcdFault& fault) {
  const std::string message = where(fault.message);
  if (fault.kind == EtcdFault::Kind::elsewhere) return elsewhere(message);
  if (fault.kind != EtcdFault::Kind::login || try_.logs_in || members_.settings().user.empty() || ++logins_ > 2)
    return finish(Error{ErrorKind::system, message});
  if (members_.token == try_.token) members_.token.clear();
  drop();
  connect();
}

// The next member; after the last one a pause, so that a cluster without a leader is not asked in circles.
void EtcdCall::elsewhere(const std::string& why, int error) {
  last_ = Error{ErrorKind::system, why, error};
  if (!try_.connection) members_.look_up(member_);
  drop();
  member_ = members_.after(member_);
  if (++tries_ % members_.settings().members.size() != 0) return connect();
  try_timer_.expires_after(kPause);
  try_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec && !self->over_) self->connect();
  });
}

void EtcdCall::out_of_time() {
  finish(last_ ? *last_ : Error{ErrorKind::system, where("no answer in time"), unconnected()});
}

void EtcdCall::finish(Result<EtcdReply> result) {
  if (over_) return;
  const auto self = shared_from_this();
  const auto caller = std::exchange(caller_, Done());
  cancel();
  ended_(self);
  if (const auto* done = std::get_if<Done>(&caller))
    (*done)(std::move(result));
  else if (!result)
    std::get<WatchCallbacks>(caller).over(result.error());
}

}  // namespace dtrain
