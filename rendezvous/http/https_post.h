#pragma once
// One POST of JSON over TLS to a server that a URL names, on an event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/http/http_connection.h"
#include "rendezvous/net/dial.h"

namespace dtrain {

// Where a URL leads. Only https: what is posted may have a token with it.
struct HttpsPlace {
  std::string host{};
  std::uint16_t port = 443;
  std::string path{};
  bool operator==(const HttpsPlace&) const = default;
};
Result<HttpsPlace> parse_https_url(std::string_view url);

class HttpsPost {
 public:
  struct Request {
    HttpsPlace place;
    std::string ca_file;  // PEM, read now; empty: the machine's authorities
    std::string token;    // of a bearer; empty: none
    std::string body;     // JSON
  };
  // An error if there is no answer, or one that is not 2xx.
  using Done = std::function<void(const Result<void>&)>;

  explicit HttpsPost(boost::asio::io_context& io) : io_(io), limit_(io), beside_(io), dial_(io) {}
  ~HttpsPost() { cancel(); }
  HttpsPost(const HttpsPost&) = delete;
  HttpsPost& operator=(const HttpsPost&) = delete;

  // One at a time. `done` is called once, never from within, within `limit`.
  void start(Request request, Duration limit, Done done);
  // Without a callback.
  void cancel();

 private:
  void dial(const std::vector<std::string>& addresses);
  void connected(UniqueFd socket);
  void answered(HttpResponse& response);
  void finish(const Result<void>& result);
  // Whether the post of this number is under way yet.
  bool runs(std::uint64_t number) const { return number == number_ && done_; }

  boost::asio::io_context& io_;
  boost::asio::steady_timer limit_;
  BesideLoop beside_;
  Dial dial_;
  std::shared_ptr<HttpConnection> connection_{};
  Request request_{};
  Done done_{};
  std::uint64_t number_ = 0;
  bool looking_up_ = false;
};

}  // namespace dtrain
