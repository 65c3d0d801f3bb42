// Sets up the listening socket and the store's thread.
#include "rendezvous/store_server/store_host.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "rendezvous/base/all_signals_blocked.h"
#include "rendezvous/base/check.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/store/store_wire.h"
#include "rendezvous/store_server/busy_poll.h"
#include "rendezvous/store_server/store_local.h"
#include "rendezvous/store_server/store_service.h"

namespace dtrain {

namespace asio = boost::asio;

struct StoreHost::Impl {
  Impl(UniqueFd listener, std::optional<PeerUid> peer_uid, Options given)
      : options(std::move(given)),
        service(io, std::move(listener), std::move(peer_uid), options,
                options.remote ? nullptr : std::make_unique<StoreLocal>(options.limits)) {
    // Signals are the agent's business: the thread inherits a mask that blocks them all.
    const AllSignalsBlocked blocked;
    thread = std::thread([this] { run_with_busy_poll(io); });
    ::pthread_setname_np(thread.native_handle(), "dtrain-store");
  }

  ~Impl() {
    io.stop();
    thread.join();
  }

  const Options options;
  asio::io_context io{1};
  // Without a port there may be nothing to wait for but what is posted.
  const asio::executor_work_guard<asio::io_context::executor_type> stays = asio::make_work_guard(io);
  StoreService service;
  std::thread thread;
};

Result<std::unique_ptr<StoreHost>> StoreHost::start(Options options) {
  auto listener = listen_at(options.address, options.port);
  if (!listener) return listener.error().in("the worker store");
  return start(std::move(*listener), std::move(options));
}

Result<std::unique_ptr<StoreHost>> StoreHost::start(UniqueFd listener, Options options) {
  const auto port = port_of_socket(listener.get());
  if (!port) return port.error();
  return make(std::move(listener), *port, std::move(options));
}

Result<std::unique_ptr<StoreHost>> StoreHost::start_without_port(Options options) {
  return make(UniqueFd(), 0, std::move(options));
}

Result<std::unique_ptr<StoreHost>> StoreHost::make(UniqueFd listener, std::uint16_t port, Options options) {
  std::optional<PeerUid> peer_uid;
  if (options.allowed_uid) {
    auto opened = PeerUid::open();
    if (!opened) return opened.error().in("the worker store");
    peer_uid = std::move(opened).value();
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(listener), std::move(peer_uid), std::move(options));
    return std::unique_ptr<StoreHost>(new StoreHost(std::move(impl), port));
  } catch (const std::exception& e) {  // no thread; no descriptors, of which Boost has an exception of its own
    return Error{ErrorKind::system, std::string("the worker store cannot start: ") + e.what()};
  }
}

StoreHost::StoreHost(std::unique_ptr<Impl> impl, std::uint16_t port) : impl_(std::move(impl)), port_(port) {}

StoreHost::~StoreHost() = default;

void StoreHost::renew() { begin(std::nullopt); }

void StoreHost::begin_round(std::uint64_t round) { begin(round); }

void StoreHost::begin(std::optional<std::uint64_t> round) {
  std::promise<void> done;
  asio::post(impl_->io, [&] {
    impl_->service.begin_round(round);
    done.set_value();
  });
  done.get_future().wait();
}

void StoreHost::adopt_link(UniqueFd socket, std::string received, std::optional<TlsSession> tls) {
  DT_CHECK(impl_->service.links() != nullptr, "an edge takes no links");
  asio::post(impl_->io, [impl = impl_.get(), fd = std::move(socket), bytes = std::move(received),
                         session = std::move(tls)]() mutable {
    impl->service.links()->adopt(std::move(fd), std::move(bytes), std::move(session));
  });
}

void StoreHost::adopt_client(UniqueFd socket) {
  asio::post(impl_->io,
             [impl = impl_.get(), fd = std::move(socket)]() mutable { impl->service.clients().adopt(std::move(fd)); });
}

Result<void> StoreHost::set(std::string_view key, std::string_view value) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error("cannot speak to the worker store", errno);
  const UniqueFd own(ends[0]);
  UniqueFd theirs(ends[1]);
  const std::string bytes = std::string(kStoreGreeting) + store_set_request(key, value);
  const ssize_t sent = ::send(own.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != ssize_t(bytes.size())) return system_error("cannot speak to the worker store", errno);
  adopt_client(std::move(theirs));
  return {};
}

StoreStats StoreHost::stats() const { return impl_->service.stats(); }

}  // namespace dtrain
