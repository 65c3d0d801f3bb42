#include "rendezvous/dial.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/listen.h"

namespace dtrain {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kLongest = std::chrono::seconds(3);

// With nobody there, a connection to a port of the range for clients can meet itself.
bool met_itself(int fd, const tcp::endpoint& endpoint) {
  tcp::endpoint self;
  auto size = static_cast<socklen_t>(self.capacity());
  if (::getsockname(fd, self.data(), &size) != 0) return false;
  self.resize(size);
  return self == endpoint;
}

}  // namespace

struct Dial::Attempt : std::enable_shared_from_this<Dial::Attempt> {
  Attempt(asio::io_context& io, std::vector<std::string> all, std::uint16_t at, Done then)
      : socket(io), timer(io), addresses(std::move(all)), port(at), done(std::move(then)) {}

  void next() {
    if (cancelled) return;
    if (tried == addresses.size()) return done(last);
    boost::system::error_code bad;
    endpoint = tcp::endpoint(asio::ip::make_address(addresses[tried++], bad), port);
    if (bad) return failed(EINVAL);
    UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return failed(errno);
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 && errno != EINPROGRESS)
      return failed(errno);
    socket.assign(fd.release());
    socket.async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this(), number = tried](const boost::system::error_code& ec) {
                        if (!ec && !self->cancelled && number == self->tried) self->connected();
                      });
    timer.expires_after(kLongest);
    timer.async_wait([self = shared_from_this(), number = tried](const boost::system::error_code& ec) {
      if (!ec && number == self->tried && self->socket.is_open()) self->failed(ETIMEDOUT);
    });
  }

  void connected() {
    timer.cancel();
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && met_itself(socket.native_handle(), endpoint)) error = ECONNREFUSED;
    if (error != 0) return failed(error);
    cancelled = true;  // nothing more comes
    done(Connection{UniqueFd(socket.release()), addresses[tried - 1]});
  }

  void failed(int error) {
    last = system_error("cannot connect to " + address_text(addresses[tried - 1], port), error);
    close();
    asio::post(timer.get_executor(), [self = shared_from_this()] { self->next(); });
  }

  void close() {
    boost::system::error_code ignored;
    socket.close(ignored);
    timer.cancel();
  }

  asio::posix::stream_descriptor socket;
  asio::steady_timer timer;
  const std::vector<std::string> addresses;
  const std::uint16_t port;
  const Done done;
  tcp::endpoint endpoint;
  std::size_t tried = 0;
  Error last{ErrorKind::system, "there is no address to connect to", EADDRNOTAVAIL};
  bool cancelled = false;
};

void Dial::start(const std::vector<std::string>& addresses, std::uint16_t port, Done done) {
  cancel();
  attempt_ = std::make_shared<Attempt>(io_, addresses, port, std::move(done));
  asio::post(io_, [attempt = attempt_] { attempt->next(); });
}

void Dial::cancel() {
  if (!attempt_) return;
  attempt_->cancelled = true;
  attempt_->close();
  attempt_.reset();
}

}  // namespace dtrain
