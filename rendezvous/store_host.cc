// Sets up the listening socket and the store's thread; StoreLoop does the rest.
#include "rendezvous/store_host.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/store_loop.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr int kBacklog = 4096;

Error cannot_listen(const StoreHost::Options& options, int error) {
  return system_error(fmt::format("the worker store cannot listen at {} port {}", options.address, options.port),
                      error);
}

Result<UniqueFd> listen_at(const StoreHost::Options& options) {
  boost::system::error_code bad_address;
  const auto address = asio::ip::make_address(options.address, bad_address);
  if (bad_address) {
    return Error{ErrorKind::usage,
                 fmt::format("the worker store's address '{}' is not a numeric IPv4 or IPv6 address", options.address)};
  }
  const asio::ip::tcp::endpoint endpoint(address, options.port);
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return cannot_listen(options, errno);
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return cannot_listen(options, errno);
  }
  return fd;
}

Result<std::uint16_t> port_of(int fd) {
  asio::ip::tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(fd, endpoint.data(), &size) != 0) return system_error("the worker store's port", errno);
  return endpoint.port();
}

}  // namespace

namespace {
// For the life of this object, also when a thread cannot be made.
struct AllSignalsBlocked {
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  sigset_t before;
};
}  // namespace

struct StoreHost::Impl {
  Impl(UniqueFd listener, std::optional<PeerUid> peer_uid, Options options)
      : loop(io, std::move(listener), std::move(peer_uid), std::move(options)) {
    loop.start();
    // Signals are the agent's business: the thread inherits a mask that blocks them all.
    const AllSignalsBlocked blocked;
    thread = std::thread([this] { io.run(); });
    ::pthread_setname_np(thread.native_handle(), "dtrain-store");
  }

  ~Impl() {
    io.stop();
    thread.join();
  }

  asio::io_context io{1};
  StoreLoop loop;
  std::thread thread;
};

Result<std::unique_ptr<StoreHost>> StoreHost::start(Options options) {
  auto listener = listen_at(options);
  if (!listener) return listener.error();
  const auto port = port_of(listener->get());
  if (!port) return port.error();
  std::optional<PeerUid> peer_uid;
  if (options.allowed_uid) {
    auto opened = PeerUid::open();
    if (!opened) return opened.error().in("the worker store");
    peer_uid = std::move(opened).value();
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(listener).value(), std::move(peer_uid), std::move(options));
    return std::unique_ptr<StoreHost>(new StoreHost(std::move(impl), *port));
  } catch (const std::system_error& e) {  // no thread, no descriptors
    return Error{ErrorKind::system, std::string("the worker store cannot start: ") + e.what(), e.code().value()};
  }
}

StoreHost::StoreHost(std::unique_ptr<Impl> impl, std::uint16_t port) : impl_(std::move(impl)), port_(port) {}

StoreHost::~StoreHost() = default;

StoreStats StoreHost::stats() const { return impl_->loop.stats(); }

}  // namespace dtrain
