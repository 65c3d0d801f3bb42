#include "rendezvous/net/dial.h"

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/listen.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr auto kLongest = std::chrono::seconds(3);

// Of several addresses of a host: it may be there where one is silent, it has closed its port where one refuses; that
// this host has no way to some family of addresses tells nothing.
int tells(const Error& error) {
  if (error.errno_value == ETIMEDOUT || error.errno_value == EHOSTUNREACH) return 2;
  return error.errno_value == ECONNREFUSED ? 1 : 0;
}

}  // namespace

struct Dial::Attempt : std::enable_shared_from_this<Dial::Attempt> {
  Attempt(asio::io_context& io, std::vector<std::string> all, std::uint16_t at, Done then)
      : socket(io), timer(io), addresses(std::move(all)), port(at), done(std::move(then)) {}

  void next() {
    if (cancelled) return;
    if (tried == addresses.size()) return done(last);
    auto fd = begin_connect(addresses[tried++], port);
    if (!fd) return failed(fd.error());
    socket.assign(fd->release());
    socket.async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this(), number = tried](const boost::system::error_code& ec) {
                        if (!ec && !self->cancelled && number == self->tried) self->connected();
                      });
    timer.expires_after(kLongest);
    timer.async_wait([self = shared_from_this(), number = tried](const boost::system::error_code& ec) {
      if (!ec && number == self->tried && self->socket.is_open()) self->failed_with(ETIMEDOUT);
    });
  }

  void connected() {
    timer.cancel();
    const int error = connect_error(socket.native_handle());
    if (error != 0) return failed_with(error);
    cancelled = true;  // nothing more comes
    done(Connection{UniqueFd(socket.release()), addresses[tried - 1]});
  }

  void failed_with(int error) {
    failed(system_error("cannot connect to " + address_text(addresses[tried - 1], port), error));
  }

  void failed(Error error) {
    if (tried == 1 || tells(error) >= tells(last)) last = std::move(error);
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
