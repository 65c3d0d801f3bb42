#include "launcher/service/job_service.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <memory>

#include "launcher/base/host_name.h"
#include "launcher/base/inherited.h"
#include "launcher/job/exit_codes.h"
#include "launcher/job/exit_status.h"
#include "launcher/job/stop_requests.h"
#include "launcher/service/notify_systemd.h"
#include "launcher/status/status_report.h"
#include "launcher/status/status_socket.h"
#include "launcher/terminal/unwaiting_line.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/store_server/store_host.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kFarewell = std::chrono::seconds(5);
constexpr std::size_t kStatusJobs = 1024;  // that may be listed

// Every node is a connection or two. No program is started that could mind.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// All addresses, also where there is no IPv6.
Result<UniqueFd> listen_for_jobs(const ServiceSpec& spec) {
  auto listener = listen_at(spec.address, spec.port);
  if (listener || spec.address != "::" || listener.error().errno_value == EADDRINUSE) return listener;
  return listen_at("0.0.0.0", spec.port);
}

class Service {
 public:
  Service(const ServiceSpec& spec, UniqueFd listener, std::uint16_t port)
      : where_(spec.address == "::" ? fmt::format("port {}", port) : address_text(spec.address, port)),
        server_(io_, std::move(listener), {spec.credential, spec.limits, say_unwaiting}),
        signals_(io_),
        farewell_(io_) {
    for (const int signal : not_ignored({SIGTERM, SIGINT, SIGHUP})) signals_.add(signal);
  }

  Result<void> open_store(const OpenStore& where, const StoreHostLimits& limits) {
    StoreHost::Options options;
    options.address = where.address;
    options.port = where.port;
    options.limits = limits;
    options.forgets = true;
    options.log = [this](std::string_view line) {  // on the store's thread
      asio::post(io_, [text = fmt::format("open {}", line)] { say_unwaiting(text); });
    };
    auto store = StoreHost::start(std::move(options));
    if (!store) return store.error().in("--open-store");
    open_store_ = std::move(*store);
    const std::string at = address_text(where.address, open_store_->port());
    say_unwaiting(fmt::format(
        "--open-store: ANYBODY WHO REACHES {} can read and change what agents and workers keep there, without a token "
        "and without encryption, and can so run programs as the users of torchrun agents that meet there",
        at));
    return {};
  }

  int run(const std::string& credential) {
    wait_for_signal();
    status_ = StatusSocket::open(io_, [this](const StatusSocket::Reply& reply) { reply(status()); });
    say_unwaiting(fmt::format("rendezvous server: {}, pid {}, {}", where_, ::getpid(), credential));
    notify_systemd("READY=1\nSTATUS=serving jobs at " + where_);
    io_.run();
    return 0;
  }

 private:
  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
      if (ec) return;
      wait_for_signal();
      stop(signal);
    });
  }

  void stop(int signal) {
    const std::size_t count = server_.job_count();
    const StopMeaning meaning = requests_.take({signal}, SteadyClock::now());  // Asio does not tell who sent it
    if (meaning == StopMeaning::same) return;
    if (meaning == StopMeaning::first) {
      notify_systemd("STOPPING=1");
      if (count > 0)
        say_unwaiting(fmt::format("{}: taking no new jobs; waiting for {} to end (a second signal ends them at once)",
                                  signal_name(signal), counted(count, "job")));
      return server_.drain([this] { io_.stop(); });
    }
    if (requests_.count() > 2) return;
    say_unwaiting(fmt::format("{}: ending {}", signal_name(signal), counted(count, "job")));
    farewell_.expires_after(kFarewell);
    farewell_.async_wait([this](const boost::system::error_code&) { io_.stop(); });
    server_.end_all(
        {JobEnd::lost, kExitOwnFailure, -1,
         fmt::format("the rendezvous server on host {} was stopped by {}", short_hostname(), signal_name(signal))});
  }

  std::string status() const {
    ServerFacts facts;
    facts.host = short_hostname();
    facts.pid = ::getpid();
    facts.where = where_;
    facts.age = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - begun_);
    facts.ending = requests_.count() > 0;
    facts.job_count = server_.job_count();
    facts.jobs = server_.jobs(kStatusJobs);
    return status_json(facts);
  }

  asio::io_context io_{1};
  const MonoTime begun_ = SteadyClock::now();
  const std::string where_;
  StopRequests requests_;
  JobServer server_;
  asio::signal_set signals_;
  asio::steady_timer farewell_;
  std::unique_ptr<StatusSocket> status_;
  std::unique_ptr<StoreHost> open_store_;
};

}  // namespace

Result<int> run_service(const ServiceSpec& spec) {
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);
  auto shown = spec.credential.shown();
  if (!shown) return shown.error();
  auto listener = listen_for_jobs(spec);
  if (!listener) return listener.error();
  const auto port = port_of_socket(listener->get());
  if (!port) return port.error();
  try {
    Service service(spec, std::move(*listener), *port);
    if (spec.open_store) {
      if (auto opened = service.open_store(*spec.open_store, spec.limits.store); !opened) return opened.error();
    }
    return service.run(*shown);
  } catch (const std::exception& e) {  // out of descriptors or memory where nothing can be refused
    return Error{ErrorKind::system, std::string("the rendezvous server cannot go on: ") + e.what()};
  }
}

}  // namespace dtrain::launcher
