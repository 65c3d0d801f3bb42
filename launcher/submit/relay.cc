#include "launcher/submit/relay.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/hosts/host_command.h"
#include "launcher/output/worker_pipes.h"
#include "rendezvous/agent_link/relay_link.h"
#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/net/dial.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr auto kLastWords = std::chrono::seconds(5);       // for the submitter to take it
constexpr std::size_t kMostUnsent = std::size_t{8} << 20;  // to the agent, which reads at once what is for it

class Relay {
 public:
  explicit Relay(RelayOrder order)
      : order_(std::move(order)),
        dial_(io_),
        engine_(io_, ::dup(STDIN_FILENO)),
        command_(io_, [this](int status) { ended(status); }),
        pipes_(io_, 1,
               {[this](int stream, std::string_view bytes) { return take(stream, bytes); }, [](int) {}, [] {}}) {}
  ~Relay() {
    if (link_) link_->close();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  Result<int> run(const std::vector<std::string>& command) {
    if (auto done = connect(); !done) return done.error();
    if (auto done = start(command); !done) return done.error();
    wait_for_engine();
    while (!over_ && io_.run_one() > 0) {
    }
    return *status_ < 0 ? 128 - *status_ : *status_;
  }

 private:
  Result<void> connect() {
    auto secret = JobSecret::parse(order_.secret);
    if (!secret) return secret.error();
    std::optional<Result<Dial::Connection>> made;
    dial_.start(order_.addresses, order_.port, [&made](Result<Dial::Connection> done) { made = std::move(done); });
    while (!made) io_.run_one();
    if (!*made) return made->error().in("the submitter of the job cannot be reached");
    auto session = TlsSession::client(std::move(*secret),
                                      {LinkRole::engine, static_cast<std::uint64_t>(order_.agent), order_.job});
    if (!session) return session.error();
    link_ = std::make_shared<RelayLink>(io_, LinkSocket{std::move((**made).socket), std::move(*session)});
    link_->start({[this](const RelayFrame& frame) { return obey(frame); },
                  [this] {
                    pipes_.resume(0);
                    pipes_.resume(1);
                  },
                  [this](const std::string&) { lost(); }});
    link_->go_on();
    return {};
  }

  Result<void> start(const std::vector<std::string>& command) {
    auto output = pipes_.open(0, Streams::all);
    if (!output) return output.error();
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    return command_.start(command, std::move(*output), descriptors, false);
  }

  // Whatever has started this process holds the other end of its input, and says nothing.
  void wait_for_engine() {
    engine_.async_read_some(asio::buffer(ignored_), [this](const boost::system::error_code& error, std::size_t) {
      if (!error) return wait_for_engine();
      engine_has_gone_ = true;
      // At once: the agent still has its workers to stop.
      if (!status_) {
        link_->send(RelayFrame::What::ended, std::to_string(kRelayLost));
        link_->finish();
      }
      command_.close_input();
      end_soon();
    });
  }

  bool obey(const RelayFrame& frame) {
    if (frame.what == RelayFrame::What::in) command_.send(frame.bytes);
    if (command_.unsent() > kMostUnsent) command_.close_input();
    return true;
  }

  bool take(int stream, std::string_view bytes) {
    if (!link_->open()) return true;  // nobody is there to read it
    link_->send(stream == 0 ? RelayFrame::What::out : RelayFrame::What::err, bytes);
    return !link_->full();
  }

  void lost() {
    command_.close_input();
    pipes_.resume(0);
    pipes_.resume(1);
    if (status_) over_ = true;
  }

  void ended(int status) {
    status_ = status;
    pipes_.drain_all();
    // A process that has left the agent may hold the pipes open.
    pipes_.close_all();
    last_words();
  }

  void last_words() {
    if (!link_->open()) {
      over_ = true;
      return;
    }
    link_->send(RelayFrame::What::ended, std::to_string(*status_));
    link_->finish();
    end_soon();
  }

  // A submitter that reads slowly, or is stopped, has all the time that its engine has.
  void end_soon() {
    if (!status_ || !engine_has_gone_) return;
    last_.emplace(io_, kLastWords);
    last_->async_wait([this](const boost::system::error_code& error) {
      if (!error) over_ = true;
    });
  }

  asio::io_context io_;
  RelayOrder order_;
  Dial dial_;
  asio::posix::stream_descriptor engine_;
  HostCommand command_;
  WorkerPipes pipes_;
  std::shared_ptr<RelayLink> link_{};
  std::optional<asio::steady_timer> last_{};
  std::optional<int> status_{};
  bool over_ = false, engine_has_gone_ = false;
  char ignored_[256];
};

}  // namespace

Result<int> relay(const RelayOrder& order, const std::vector<std::string>& command) {
  std::signal(SIGPIPE, SIG_IGN);  // an agent that has ended says so by its pidfd
  return Relay(order).run(command);
}

}  // namespace dtrain::launcher
