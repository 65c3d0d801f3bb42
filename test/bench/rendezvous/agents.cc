#include "test/bench/rendezvous/agents.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "rendezvous/agent_link/round_link.h"

namespace dtrain::bench {

namespace asio = boost::asio;

namespace {

class Agents;

// A link as an agent has it, and no workers: they stop at once.
class Agent {
 public:
  Agent(asio::io_context& io, Agents& all, const Plan& plan, int number);
  void join();
  void vanish() { link_.close(); }

 private:
  void told(const RoundMessage& message);
  void again(const std::string& why);
  void say(const RoundMessage& message);

  Agents& all_;
  const Plan& plan_;
  const int number_;
  bool arrived_ = false;
  RoundLink link_;
  asio::steady_timer retry_;
  std::chrono::milliseconds retry_after_{10};
};

class Agents {
 public:
  Agents(asio::io_context& io, const Plan& plan, int first, int step, int channel)
      : channel_(io, channel),
        at_once_(std::size_t(plan.at_once)),
        all_(std::size_t((plan.agents - first) / step + 1)) {
    for (std::size_t i = 0; i < all_.size(); ++i)
      all_[i] = std::make_unique<Agent>(io, *this, plan, first + int(i) * step);
    listen();
  }

  Report sums;

  // One more has been told so.
  void count(Report::What what) {
    if (what != sums.what) reached_ = 0;
    sums.what = what;
    if (++reached_ < all_.size() - std::size_t(vanished_)) return;
    reached_ = 0;
    sums.cpu = cpu_seconds();
    sums.at = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (::send(channel_.native_handle(), &sums, sizeof sums, MSG_NOSIGNAL) != ssize_t(sizeof sums)) std::exit(1);
  }
  // One more has come to the host: another may go.
  void arrived() { start_next(); }
  void note(const std::string& trouble) {
    std::snprintf(sums.trouble.data(), sums.trouble.size(), "%s", trouble.c_str());
  }

 private:
  void listen() {
    channel_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
      char command = 0;
      if (ec || ::recv(channel_.native_handle(), &command, 1, 0) != 1) std::exit(0);
      if (command == 'j')
        for (std::size_t i = 0; i < at_once_; ++i) start_next();
      if (command == 'l') {
        vanished_ = 1;
        all_.front()->vanish();
      }
      listen();
    });
  }

  void start_next() {
    if (started_ < all_.size()) all_[started_++]->join();
  }

  asio::posix::stream_descriptor channel_;
  const std::size_t at_once_;
  std::vector<std::unique_ptr<Agent>> all_;
  std::size_t started_ = 0;
  std::size_t reached_ = 0;
  int vanished_ = 0;
};

Agent::Agent(asio::io_context& io, Agents& all, const Plan& plan, int number)
    : all_(all),
      plan_(plan),
      number_(number),
      link_(io, {[this](const RoundMessage& m) { told(m); }, [this](const Error& e) { again(e.message); },
                 [this](bool joined, const std::string& why, TlsFault) {
                   if (joined) ++all_.sums.lost;
                   again(why.empty() ? "it closes the connection" : why);
                 }}),
      retry_(io) {}

void Agent::join() {
  ++all_.sums.attempts;
  ++all_.sums.said;
  link_.connect({{address_of(number_)}, plan_.port, true, plan_.secret, plan_.pulse}, node_info(plan_, number_));
}

void Agent::again(const std::string& why) {
  all_.note(why);
  if (all_.sums.what == Report::What::ended) return;
  retry_.expires_after(retry_after_);
  retry_after_ = std::min(2 * retry_after_, std::chrono::milliseconds(1000));
  retry_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) join();
  });
}

void Agent::say(const RoundMessage& message) {
  ++all_.sums.said;
  link_.send(message);
}

void Agent::told(const RoundMessage& message) {
  ++all_.sums.told;
  if (!std::exchange(arrived_, true)) all_.arrived();
  if (std::holds_alternative<msg::Open>(message)) all_.count(Report::What::opened);
  if (const auto* refused = std::get_if<msg::Refused>(&message)) die("refused: " + refused->reason);
  if (const auto* stop = std::get_if<msg::Stop>(&message)) {
    say(msg::Over{stop->round, false});
    all_.count(Report::What::stopped);
  }
  if (std::holds_alternative<msg::End>(message)) {
    all_.count(Report::What::ended);
    link_.close();
  }
}

}  // namespace

void play_agents(const Plan& plan, int first, int step, int channel) {
  asio::io_context io(1);
  Agents agents(io, plan, first, step, channel);
  io.run();
}

}  // namespace dtrain::bench
