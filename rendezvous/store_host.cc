// Sets up the listening socket and the store's thread; StoreLoop does the rest.
#include "rendezvous/store_host.h"

#include <pthread.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/listen.h"
#include "rendezvous/store_local.h"
#include "rendezvous/store_loop.h"

namespace dtrain {

namespace asio = boost::asio;

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
  Impl(UniqueFd listener, std::optional<PeerUid> peer_uid, Options given)
      : options(std::move(given)), local(options.limits), loop(io, std::move(listener), std::move(peer_uid), options, local) {
    loop.start(nullptr);
    // Signals are the agent's business: the thread inherits a mask that blocks them all.
    const AllSignalsBlocked blocked;
    thread = std::thread([this] { io.run(); });
    ::pthread_setname_np(thread.native_handle(), "dtrain-store");
  }

  ~Impl() {
    io.stop();
    thread.join();
  }

  const Options options;
  asio::io_context io{1};
  StoreLocal local;
  StoreLoop loop;
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
  std::optional<PeerUid> peer_uid;
  if (options.allowed_uid) {
    auto opened = PeerUid::open();
    if (!opened) return opened.error().in("the worker store");
    peer_uid = std::move(opened).value();
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(listener), std::move(peer_uid), std::move(options));
    return std::unique_ptr<StoreHost>(new StoreHost(std::move(impl), *port));
  } catch (const std::system_error& e) {  // no thread, no descriptors
    return Error{ErrorKind::system, std::string("the worker store cannot start: ") + e.what(), e.code().value()};
  }
}

StoreHost::StoreHost(std::unique_ptr<Impl> impl, std::uint16_t port) : impl_(std::move(impl)), port_(port) {}

StoreHost::~StoreHost() = default;

void StoreHost::renew() {
  std::promise<void> done;
  asio::post(impl_->io, [&] {
    impl_->loop.close_all();
    impl_->local.renew();
    impl_->loop.publish();
    done.set_value();
  });
  done.get_future().wait();
}

StoreStats StoreHost::stats() const { return impl_->loop.stats(); }

}  // namespace dtrain
