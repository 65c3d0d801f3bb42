#include "launcher/submit/submit.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/base/inherited.h"
#include "launcher/front/end_requests.h"
#include "launcher/front/interrupt.h"
#include "launcher/job/exit_codes.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/output_writer.h"
#include "launcher/output/worker_pipes.h"
#include "launcher/submit/host_command.h"
#include "launcher/terminal/terminal_line.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kQueueBytes = std::size_t{4} << 20;
constexpr auto kLastOutput = std::chrono::seconds(2);   // for a reader of ours that reads nothing
constexpr auto kSlowReader = std::chrono::seconds(60);  // for one that reads

// Three descriptors a host. Returns the user's limit, which the commands keep.
rlimit raise_descriptors() {
  rlimit users{};
  ::getrlimit(RLIMIT_NOFILE, &users);
  rlimit raised = users;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return users;
}

UniqueFd watch_signals(const SubmitSpec& spec) {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int signal : spec.stop_signals) ::sigaddset(&mask, signal);
  for (const int signal : spec.passed_signals) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
}

class Submitter {
 public:
  Submitter(SubmitSpec spec, UniqueFd signals, rlimit users_descriptors)
      : commands_of_(std::move(spec.commands)),
        placement_(std::move(spec.request), SteadyClock::now()),
        ends_(spec.stop_signals),
        users_descriptors_(users_descriptors),
        signals_(io_, signals.release()),
        deadline_(io_),
        out_(kQueueBytes, [this] { asio::post(io_, [this] { take_more(); }); }),
        err_(kQueueBytes, [this] { asio::post(io_, [this] { take_more(); }); }),
        pipes_(io_, static_cast<int>(commands_of_.size()),
               {[this](int stream, std::string_view bytes) { return take(stream, bytes); },
                [this](int stream) { take_end(stream); }, [] {}}),
        lines_(2 * commands_of_.size()),
        paused_(2 * commands_of_.size()) {
    out_.add_borrowed_target(STDOUT_FILENO, "stdout");
    err_.add_borrowed_target(STDERR_FILENO, "stderr");
    for (std::size_t i = 0; i < commands_of_.size(); ++i)
      commands_.push_back(std::make_unique<HostCommand>(io_, [this, i](int status) {
        if (!placement_.has_begun()) pipes_.drain_all();  // its last words tell why
        placement_.ended(static_cast<int>(i), status, SteadyClock::now());
        carry_out();
      }));
    listen();
  }

  Result<int> run() {
    carry_out();
    while (!over() && io_.run_one() > 0) {
    }
    take_the_rest();
    if (killed_) return 128 + killed_;
    return *placement_.end();
  }
  bool was_interrupted() const { return interrupted_; }

 private:
  // Somebody else may hold a pipe open, such as ssh's ControlMaster; and a reader of ours may be slow.
  void take_the_rest() {
    const auto last = SteadyClock::now() + kSlowReader;
    auto deadline = SteadyClock::now() + kLastOutput;
    std::uint64_t written = out_.progress() + err_.progress();
    while (!pipes_.all_closed()) {
      if (io_.run_one_until(std::min(deadline, last)) > 0) continue;
      if (SteadyClock::now() >= last || out_.progress() + err_.progress() == written) break;
      written = out_.progress() + err_.progress();
      deadline = SteadyClock::now() + kLastOutput;
    }
    // What is in the pipes yet counts as lost, if the writers do not take it.
    if (placement_.has_begun()) pipes_.drain_all();
    pipes_.close_all();
    const auto until = SteadyClock::now() + kLastOutput;
    out_.finish(until);
    const auto of_out = out_.losses();
    for (const WriteLoss& loss : of_out) say(lost_text(loss));
    if (unwritten_ != 0)
      say(fmt::format("{} bytes of output were not written: they were not read in time", unwritten_));
    err_.finish(until);
  }

  static std::string lost_text(const WriteLoss& loss) {
    return fmt::format("{} bytes ({} lines) of {} were not written: {}", loss.bytes, loss.lines, loss.target,
                       loss.reason);
  }

  bool over() const {
    if (!placement_.end()) return false;
    for (const auto& command : commands_)
      if (command->is_running()) return false;
    return true;
  }

  void carry_out() {
    // An order that fails gives new ones.
    for (auto orders = placement_.take_orders(); !orders.empty(); orders = placement_.take_orders())
      for (const auto& order : orders) carry_out(order);
    for (const std::string& note : placement_.take_notes()) say(note);
    deadline_.cancel();
    const auto due = placement_.deadline();
    if (!due) return;
    deadline_.expires_at(*due);
    deadline_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      placement_.look_at(SteadyClock::now());
      carry_out();
    });
  }

  void carry_out(const Placement::Order& order) {
    const auto host = static_cast<std::size_t>(order.host);
    HostCommand& command = *commands_[host];
    switch (order.what) {
      case Placement::Order::What::start:
        return start(host);
      case Placement::Order::What::send:
        return command.send(order.line);
      case Placement::Order::What::drop:
        command.close_input();
        return command.kill();
    }
  }

  void start(std::size_t host) {
    auto output = pipes_.open(static_cast<int>(host), Streams::all);
    const auto started = output ? commands_[host]->start(commands_of_[host], std::move(*output), users_descriptors_,
                                                         !placement_.is_here(static_cast<int>(host)))
                                : Result<void>(output.error());
    if (started) return;
    placement_.complained(static_cast<int>(host), started.error().message);
    placement_.ended(static_cast<int>(host), kExitNotExecutable, SteadyClock::now());
  }

  void say(const std::string& text) { write(1, std::string(own_line(text)) + "\n"); }

  void write(std::size_t target, std::string_view bytes) {
    Block block;
    block.append({}, bytes, static_cast<StreamId>(target));
    OutputWriter& writer = writer_of(target);
    if (!writer.overfull()) return writer.submit(0, block);
    unwritten_ += bytes.size();
  }

  OutputWriter& writer_of(std::size_t target) { return target == 0 ? out_ : err_; }

  // False: not now.
  bool take(int stream, std::string_view bytes) {
    const bool ran = placement_.has_begun();
    lines_[static_cast<std::size_t>(stream)].feed(bytes, [&](const Piece& piece) { take_piece(stream, piece); });
    if (!ran) carry_out();
    const bool full = placement_.has_begun() && writer_of(static_cast<std::size_t>(stream % 2)).full();
    paused_[static_cast<std::size_t>(stream)] = full ? 1 : 0;
    return !full;
  }

  void take_piece(int stream, const Piece& piece) {
    const int host = stream / 2;
    if (placement_.has_begun()) return write(static_cast<std::size_t>(stream % 2), piece.bytes);
    std::string_view line = piece.bytes;
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    if (stream % 2 == 0)
      placement_.said(host, line, SteadyClock::now());
    else
      placement_.complained(host, line);
  }

  void take_end(int stream) {
    lines_[static_cast<std::size_t>(stream)].finish([&](const Piece& piece) {
      take_piece(stream, piece);
      if (placement_.has_begun()) write(static_cast<std::size_t>(stream % 2), "\n");
    });
  }

  void take_more() {
    for (std::size_t i = 0; i < paused_.size(); ++i)
      if (!writer_of(i % 2).full() && std::exchange(paused_[i], char{0}) != 0) pipes_.resume(static_cast<int>(i));
  }

  void listen() {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      signalfd_siginfo info{};
      while (::read(signals_.native_handle(), &info, sizeof info) == sizeof info) take_signal(info);
      carry_out();
      listen();
    });
  }

  void take_signal(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (!ends_.is_request(signal)) return placement_.signal(signal, false);
    if (!ends_.take({signal, info.ssi_code}, SteadyClock::now())) return;
    interrupted_ = signal == SIGINT;
    placement_.signal(signal, true);
    // Agents that cannot be reached do not end.
    if (!ends_.agent_is_stuck()) return;
    killed_ = signal;
    for (const auto& command : commands_) command->kill();
  }

  asio::io_context io_;
  std::vector<std::vector<std::string>> commands_of_;
  Placement placement_;
  EndRequests ends_;
  rlimit users_descriptors_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer deadline_;
  OutputWriter out_, err_;
  WorkerPipes pipes_;
  std::vector<LineSplitter> lines_;  // by stream
  std::vector<char> paused_;         // by stream
  std::vector<std::unique_ptr<HostCommand>> commands_{};
  bool interrupted_ = false;
  int killed_ = 0;  // the signal after which the commands were killed
  std::uint64_t unwritten_ = 0;
};

}  // namespace

Result<int> run_on_hosts(SubmitSpec spec) {
  fill_standard_descriptors();
  ::prctl(PR_SET_DUMPABLE, 0);  // the token of the job is in this process (docs/security.md)
  const rlimit users_descriptors = raise_descriptors();
  spec.stop_signals = not_ignored(spec.stop_signals);
  spec.passed_signals = not_ignored(spec.passed_signals);
  UniqueFd signals = watch_signals(spec);
  if (!signals) return system_error("signals cannot be watched", errno);
  Result<int> code = 0;
  bool interrupted = false;
  {
    Submitter submitter(std::move(spec), std::move(signals), users_descriptors);
    code = submitter.run();
    interrupted = submitter.was_interrupted();
  }
  if (interrupted && code && *code == 128 + SIGINT) die_of_interrupt();
  return code;
}

}  // namespace dtrain::launcher
