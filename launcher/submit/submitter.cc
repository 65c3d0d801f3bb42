#include "launcher/submit/submitter.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <utility>

#include "launcher/job/exit_codes.h"
#include "launcher/ship/ship_list.h"
#include "launcher/terminal/terminal_line.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kQueueBytes = std::size_t{4} << 20;
constexpr auto kLastOutput = std::chrono::seconds(2);   // for a reader of ours that reads nothing
constexpr auto kSlowReader = std::chrono::seconds(60);  // for one that reads

std::string lost_text(const WriteLoss& loss) {
  return fmt::format("{} bytes ({} lines) of {} were not written: {}", loss.bytes, loss.lines, loss.target,
                     loss.reason);
}

}  // namespace

Submitter::Submitter(asio::io_context& io, const SubmitSignals& spec, UniqueFd signals, PlacementRequest request,
                     AgentEnds& agents)
    : io_(io),
      lines_(2 * request.hosts.size()),
      paused_(2 * request.hosts.size()),
      ship_from_(request.task.folder),
      ship_(request.task.ship),
      placement_(std::move(request), SteadyClock::now()),
      agents_(agents),
      ends_(spec.stop),
      signals_(io_, signals.release()),
      deadline_(io_),
      one_file_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      out_(kQueueBytes, [this] { take_more_soon(); }),
      err_(kQueueBytes, [this] { take_more_soon(); }) {
  out_.add_borrowed_target(STDOUT_FILENO, "stdout");
  err_.add_borrowed_target(STDERR_FILENO, "stderr");
  listen();
}

void Submitter::join(PlacedHost host) {
  placement_.joined(std::move(host), SteadyClock::now());
  lines_.resize(lines_.size() + 2);
  paused_.resize(paused_.size() + 2);
  carry_out();
}

Result<int> Submitter::run() {
  agents_.attach({[this](int stream, std::string_view bytes) { return take(stream, bytes); },
                  [this](int stream) { take_end(stream); }, [this](int host, int status) { ended(host, status); },
                  [this](int host, const std::string& why) { placement_.complained(host, why); }});
  carry_out();
  while (!over() && io_.run_one() > 0) {
  }
  take_the_rest();
  if (killed_) return 128 + killed_;
  return *placement_.end();
}

void Submitter::ended(int host, int status) {
  if (!placement_.has_begun(host)) agents_.drain_all();  // its last words tell why
  placement_.ended(host, status, SteadyClock::now());
  carry_out();
}

// Somebody else may hold a pipe open, such as ssh's ControlMaster; and a reader of ours may be slow.
void Submitter::take_the_rest() {
  const auto last = SteadyClock::now() + kSlowReader;
  auto deadline = SteadyClock::now() + kLastOutput;
  std::uint64_t written = out_.progress() + err_.progress();
  while (!agents_.all_closed()) {
    if (io_.run_one_until(std::min(deadline, last)) > 0) continue;
    if (SteadyClock::now() >= last || out_.progress() + err_.progress() == written) break;
    written = out_.progress() + err_.progress();
    deadline = SteadyClock::now() + kLastOutput;
  }
  // What is in the pipes yet counts as lost, if the writers do not take it.
  if (placement_.has_begun()) agents_.drain_all();
  agents_.close_all();
  const auto until = SteadyClock::now() + kLastOutput;
  out_.finish(until);
  const auto of_out = out_.losses();
  for (const WriteLoss& loss : of_out) say(lost_text(loss));
  if (unwritten_ != 0) say(fmt::format("{} bytes of output were not written: they were not read in time", unwritten_));
  err_.finish(until);
}

bool Submitter::over() const { return placement_.end() && !agents_.any_runs(); }

void Submitter::carry_out() {
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

void Submitter::carry_out(const Placement::Order& order) {
  switch (order.what) {
    case Placement::Order::What::start:
      return start(order.host);
    case Placement::Order::What::send:
      return agents_.send(order.host, order.line);
    case Placement::Order::What::serve:
      return serve(order.host, order.piece);
    case Placement::Order::What::drop:
      return agents_.drop(order.host);
    case Placement::Order::What::vacate:
      return agents_.vacate(order.host);
  }
}

void Submitter::start(int host) {
  const auto started = agents_.start(host);
  if (started) return;
  placement_.complained(host, started.error().message);
  placement_.ended(host, kExitNotExecutable, SteadyClock::now());
}

void Submitter::serve(int host, const ShipPiece& piece) {
  const auto bytes = read_ship_piece(ship_from_, ship_[piece.file], piece);
  if (!bytes) return placement_.cannot_serve(host, bytes.error());
  agents_.serve(host, piece, *bytes);
}

void Submitter::say(const std::string& text) { write(1, std::string(own_line(text)) + "\n"); }

void Submitter::write(std::size_t target, std::string_view bytes) {
  Block block;
  block.append({}, bytes, static_cast<StreamId>(target));
  OutputWriter& writer = writer_of(target);
  if (!writer.overfull()) return writer.submit(0, block);
  unwritten_ += bytes.size();
}

// False: not now.
bool Submitter::take(int stream, std::string_view bytes) {
  const int host = stream / 2;
  const bool ran = placement_.has_begun(host);
  lines_[static_cast<std::size_t>(stream)].feed(bytes, [&](const Piece& piece) { take_piece(stream, piece); });
  if (!ran) carry_out();
  const bool full = placement_.has_begun(host) && writer_of(static_cast<std::size_t>(stream % 2)).full();
  // A stream may have two sources (an agent's frames, and its ssh), and each of them waits until it is resumed.
  if (full) paused_[static_cast<std::size_t>(stream)] = 1;
  return !full;
}

void Submitter::take_piece(int stream, const Piece& piece) {
  const int host = stream / 2;
  if (placement_.has_begun(host)) return write(static_cast<std::size_t>(stream % 2), piece.bytes);
  std::string_view line = piece.bytes;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (stream % 2 == 0)
    placement_.said(host, line, SteadyClock::now());
  else
    placement_.complained(host, line);
}

void Submitter::take_end(int stream) {
  lines_[static_cast<std::size_t>(stream)].finish([&](const Piece& piece) {
    take_piece(stream, piece);
    if (placement_.has_begun(stream / 2)) write(static_cast<std::size_t>(stream % 2), "\n");
  });
}

// Of the writers' threads.
void Submitter::take_more_soon() {
  asio::post(io_, [this, alive = std::weak_ptr(lives_)] {
    if (!alive.expired()) take_more();
  });
}

void Submitter::take_more() {
  for (std::size_t i = 0; i < paused_.size(); ++i)
    if (!writer_of(i % 2).full() && std::exchange(paused_[i], char{0}) != 0) agents_.resume(static_cast<int>(i));
}

void Submitter::listen() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    signalfd_siginfo info{};
    while (::read(signals_.native_handle(), &info, sizeof info) == sizeof info)
      take_signal(static_cast<int>(info.ssi_signo), info.ssi_code);
    carry_out();
    listen();
  });
}

void Submitter::take_signal(int signal, int code) {
  if (!ends_.is_request(signal)) return placement_.signal(signal, false);
  if (!ends_.take({signal, code}, SteadyClock::now())) return;
  interrupted_ = signal == SIGINT;
  placement_.signal(signal, true);
  // Agents that cannot be reached do not end.
  if (!ends_.agent_is_stuck()) return;
  killed_ = signal;
  for (std::size_t host = 0; host < lines_.size() / 2; ++host) agents_.drop(static_cast<int>(host));
}

}  // namespace dtrain::launcher
