#include "rendezvous/etcd_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/connect.h"
#include "rendezvous/dial.h"
#include "rendezvous/host_names.h"
#include "rendezvous/listen.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr std::size_t kMostIdle = 4;
constexpr auto kPause = std::chrono::milliseconds(50);  // when no member can do it
constexpr auto kLookUpAgain = std::chrono::seconds(1);
}  // namespace

// One call on its way from member to member.
class EtcdClient::Call : public std::enable_shared_from_this<EtcdClient::Call> {
 public:
  Call(EtcdClient& client, EtcdRequest request, Duration limit)
      : client_(client),
        request_(std::move(request)),
        dial_(client.io_),
        try_timer_(client.io_),
        timer_(client.io_),
        member_(client.good_),
        limit_(limit) {}

  Done done;                             // one answer, or
  std::optional<WatchCallbacks> stream;  // many

  void begin() {
    timer_.expires_after(limit_);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
      if (ec || self->over_) return;
      const bool first = self->last_.empty();
      self->finish(Error{ErrorKind::system, first ? self->where("no answer in time") : self->last_,
                         first ? self->unconnected() : self->last_errno_});
    });
    asio::post(client_.io_, [self = shared_from_this()] {
      if (!self->over_) self->connect();
    });
  }

  void cancel() {
    over_ = true;
    drop();
    timer_.cancel();
    done = {};
    stream.reset();
  }

 private:
  const EtcdMember& member() const { return client_.settings_.members[member_]; }
  std::string where(const std::string& what) const {
    return fmt::format("etcd at {}: {}", address_text(member().name, member().port), what);
  }

  int unconnected() const { return connection_ ? 0 : ETIMEDOUT; }

  // Leave the connection, if there is one.
  void drop() {
    dial_.cancel();
    try_timer_.cancel();
    if (connection_) connection_->close();
    connection_.reset();
  }

  void connect() {
    try_timer_.expires_after(client_.settings_.one_try);
    try_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
      if (!ec && !self->over_) self->elsewhere(self->where("no answer in time"), self->unconnected());
    });
    connection_ = client_.take_idle(member_);
    reused_ = connection_ != nullptr;
    if (connection_) return ask();
    const auto& addresses = client_.addresses_[member_];
    if (addresses.empty()) return elsewhere(fmt::format("etcd: there is no host {} yet", member().name), EADDRNOTAVAIL);
    dial_.start(addresses, member().port, [self = shared_from_this()](Result<Dial::Connection> dialled) {
      if (self->over_) return;
      if (!dialled) return self->elsewhere("etcd: " + dialled.error().message, dialled.error().errno_value);
      self->dialled(std::move(dialled->socket));
    });
  }

  void dialled(UniqueFd socket) {
    client_.connected(socket.get());
    LinkSocket link{std::move(socket)};
    if (const auto& certificates = client_.settings_.certificates) {
      auto tls = TlsSession::client(*certificates, member().name);
      if (!tls) return finish(tls.error());
      link.tls = std::move(*tls);
    }
    connection_ = std::make_shared<HttpConnection>(client_.io_, std::move(link));
    ask();
  }

  // The request, or before it one for the token.
  void ask() {
    logs_in_ = !client_.settings_.user.empty() && client_.token_.empty();
    token_ = client_.token_;
    const EtcdRequest& next =
        logs_in_ ? login_.emplace(etcd_authenticate(client_.settings_.user, client_.settings_.password)) : request_;
    const std::string host = address_text(member().name, member().port);
    connection_->ask(encode(HttpPost{host, next.path, token_, next.body}), kEtcdReplyBytes,
                     {[self = shared_from_this()](HttpResponse& response, bool last) {
                        if (!self->over_) self->news(response, last);
                      },
                      [self = shared_from_this()](const std::string& why) {
                        if (!self->over_) self->broken(why);
                      }});
  }

  void broken(const std::string& why) {
    if (std::exchange(streams_, false)) return finish(Error{ErrorKind::system, where(why)});
    // A connection that was kept may have been closed by the time it is used: that says nothing about the member.
    if (!reused_) {
      const char* hint = client_.settings_.certificates ? "; has it only http?" : "; does it want https?";
      return elsewhere(where(why + (why == HttpResponse::kClosed ? hint : "")));
    }
    drop();
    connect();
  }

  void news(HttpResponse& response, bool last) {
    if (stream && !logs_in_ && response.has_head() && response.code() == 200) return stream_news(response, last);
    if (!last) return;
    try_timer_.cancel();
    auto answer = parse_etcd_reply(response.code(), response.take_body());
    if (auto* fault = std::get_if<EtcdFault>(&answer)) return failed(*fault);
    if (logs_in_) {
      client_.token_ = std::get<EtcdReply>(answer).token;
      if (client_.token_.empty()) return finish(Error{ErrorKind::system, where("it gives no token")});
      if (!connection_->open()) return drop(), connect();
      return ask();
    }
    client_.good_ = member_;
    client_.give_back(member_, std::exchange(connection_, nullptr));
    finish(std::move(std::get<EtcdReply>(answer)));
  }

  void stream_news(HttpResponse& response, bool last) {
    streams_ = true;
    client_.good_ = member_;
    const auto news = watch_.put(response.take_body());
    if (news.began) {
      try_timer_.cancel();
      timer_.cancel();
    }
    if (news.over) return finish(Error{ErrorKind::system, where(news.over->message)});
    // Whoever is called may end this.
    const auto callbacks = *stream;
    if (news.began && callbacks.began) callbacks.began();
    if (news.changed && !over_) callbacks.changed();
    if (last && !over_) finish(Error{ErrorKind::system, where("it has ended the watch")});
  }

  void failed(const EtcdFault& fault) {
    const std::string message = where(fault.message);
    if (fault.kind == EtcdFault::Kind::elsewhere) return elsewhere(message);
    if (fault.kind != EtcdFault::Kind::login || logs_in_ || client_.settings_.user.empty() || ++logins_ > 2)
      return finish(Error{ErrorKind::system, message});
    if (client_.token_ == token_) client_.token_.clear();
    drop();
    connect();
  }

  // The next member; after the last one a pause, so that a cluster without a leader is not asked in circles.
  void elsewhere(const std::string& why, int error = 0) {
    last_ = why;
    last_errno_ = error;
    if (!connection_) client_.look_up(member_);
    drop();
    member_ = (member_ + 1) % client_.settings_.members.size();
    if (++tries_ % client_.settings_.members.size() != 0) return connect();
    try_timer_.expires_after(kPause);
    try_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
      if (!ec && !self->over_) self->connect();
    });
  }

  void finish(Result<EtcdReply> result) {
    if (over_) return;
    const auto self = shared_from_this();
    const auto answer = std::move(done);
    const auto callbacks = std::move(stream);
    cancel();
    client_.calls_.erase(self);
    if (client_.watch_ == self) client_.watch_.reset();
    if (callbacks && !result) callbacks->over(result.error());
    if (answer) answer(std::move(result));
  }

  EtcdClient& client_;
  const EtcdRequest request_;
  Dial dial_;
  asio::steady_timer try_timer_, timer_;
  std::size_t member_;
  const Duration limit_;
  std::shared_ptr<HttpConnection> connection_;
  std::optional<EtcdRequest> login_;
  std::string token_;  // that this try has used
  EtcdWatchStream watch_;
  std::string last_;
  int last_errno_ = 0;
  std::size_t tries_ = 0;
  int logins_ = 0;
  bool reused_ = false, logs_in_ = false, streams_ = false, over_ = false;
};

EtcdClient::EtcdClient(asio::io_context& io, EtcdSettings settings)
    : io_(io), settings_(std::move(settings)), look_up_at_(settings_.members.size()), beside_(io) {
  for (const EtcdMember& member : settings_.members) addresses_.push_back(member.addresses);
}

EtcdClient::~EtcdClient() { cancel(); }

void EtcdClient::start(const std::shared_ptr<Call>& call) { call->begin(); }

void EtcdClient::call(EtcdRequest request, Duration limit, Done done) {
  if (calls_.size() >= kMostCalls) {
    asio::post(io_, [done = std::move(done)] { done(Error{ErrorKind::system, "too many calls of etcd at once"}); });
    return;
  }
  const auto call = std::make_shared<Call>(*this, std::move(request), limit);
  call->done = std::move(done);
  calls_.insert(call);
  start(call);
}

void EtcdClient::watch(EtcdRequest request, Duration limit, WatchCallbacks callbacks) {
  stop_watching();
  watch_ = std::make_shared<Call>(*this, std::move(request), limit);
  watch_->stream = std::move(callbacks);
  start(watch_);
}

void EtcdClient::stop_watching() {
  if (const auto watch = std::exchange(watch_, nullptr)) watch->cancel();
}

void EtcdClient::cancel() {
  stop_watching();
  for (const auto& call : std::exchange(calls_, {})) call->cancel();
  for (const Idle& idle : idle_) idle.connection->close();
  idle_.clear();
}

std::shared_ptr<HttpConnection> EtcdClient::take_idle(std::size_t member) {
  std::erase_if(idle_, [](const Idle& idle) { return !idle.connection->open(); });
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) { return idle.member == member; });
  if (found == idle_.end()) return nullptr;
  auto connection = std::move(found->connection);
  idle_.erase(found);
  return connection;
}

void EtcdClient::give_back(std::size_t member, std::shared_ptr<HttpConnection> connection) {
  if (!connection->open()) return;
  if (idle_.size() >= kMostIdle) return connection->close();
  idle_.push_back({member, std::move(connection)});
}

void EtcdClient::look_up(std::size_t member) {
  const std::string& name = settings_.members[member].name;
  if (clock_.now() < look_up_at_[member] || is_numeric_address(name)) return;
  look_up_at_[member] = MonoTime::max();  // one at a time
  beside_.start<std::vector<std::string>>(
      "etcd", [name] { return addresses_of_host(name); },
      [this, member](const Result<std::vector<std::string>>& found) {
        if (found) addresses_[member] = *found;
        look_up_at_[member] = clock_.now() + kLookUpAgain;
      });
}

void EtcdClient::connected(int fd) {
  if (auto own = dtrain::own_address(fd); !own.empty()) own_address_ = std::move(own);
}

}  // namespace dtrain
