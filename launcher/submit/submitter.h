#pragma once
// Carries out what a placement decides (launcher/engines/placement.h), and passes on the agents' output and the user's
// signals.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engines/placement.h"
#include "launcher/front/end_requests.h"
#include "launcher/hosts/agent_ends.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/output_writer.h"
#include "launcher/submit/submit.h"

namespace dtrain::launcher {

class Submitter {
 public:
  // `signals`: a signalfd of those that `spec` names. `agents` outlives this.
  Submitter(boost::asio::io_context& io, const SubmitSignals& spec, UniqueFd signals, PlacementRequest request,
            AgentEnds& agents);
  ~Submitter() { agents_.attach({}); }
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

  // The engine has one more node.
  void join(PlacedHost host);
  // Until all agents have ended.
  Result<int> run();
  bool was_interrupted() const { return interrupted_; }

 private:
  void take_the_rest();
  bool over() const;
  void carry_out();
  void carry_out(const Placement::Order& order);
  void start(int host);
  void serve(int host, const ShipPiece& piece);
  void say(const std::string& text);
  void write(std::size_t target, std::string_view bytes);
  OutputWriter& writer_of(std::size_t target) { return target == 0 || one_file_ ? out_ : err_; }
  bool take(int stream, std::string_view bytes);
  void take_piece(int stream, const Piece& piece);
  void take_end(int stream);
  void take_more_soon();
  void take_more();
  void ended(int host, int status);
  void listen();
  void take_signal(int signal, int code);

  boost::asio::io_context& io_;
  std::vector<LineSplitter> lines_;  // by stream
  std::vector<char> paused_;         // by stream
  const std::string ship_from_;
  const std::vector<ShipFile> ship_;
  Placement placement_;
  AgentEnds& agents_;
  EndRequests ends_;
  boost::asio::posix::stream_descriptor signals_;
  boost::asio::steady_timer deadline_;
  const std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
  const bool one_file_;
  OutputWriter out_, err_;
  bool interrupted_ = false;
  int killed_ = 0;  // the signal after which the agents were given up
  std::uint64_t unwritten_ = 0;
};

}  // namespace dtrain::launcher
