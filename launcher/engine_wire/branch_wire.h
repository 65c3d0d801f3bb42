#pragma once
// What a submitter and a branch say to each other: an agent's process that starts other agents, too, and carries their
// input and output (launcher/hosts/branch.h). On the branch's standard input and output. Pure.
//
//   branch     dtrain-agent {"protocol":1, ...}      its card, as each agent shows it (agent_wire.h)
//   submitter  {"branch":{"fanout":2,"commands":[["ssh","host3","..."],...]}}         a BranchPlan in place of a task
//   branch     dtrain-agent {"branch":true}
//
// From then on both say frames. Agent 0 is that of the branch's own host, and the others are those of the plan.
//
//   octet   what it is (BranchFrame::What)
//   octets  4: the agent, big-endian
//   octets  4: how many bytes follow, big-endian; at most kBranchFrameBytes
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/engine_wire/ship_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct BranchPlan {
  int fanout = 0;
  std::vector<std::vector<std::string>> commands{};  // by agent, from agent 1 on; at least one
  bool operator==(const BranchPlan&) const = default;
};

// Error: it is too long, or not UTF-8.
Result<std::string> branch_plan_line(const BranchPlan& plan);
// Nothing: the line is no plan, so it may be a task.
Result<std::optional<BranchPlan>> parse_branch_plan(std::string_view line);

std::string branch_ready_line();
bool is_branch_ready(std::string_view line);

// The piece of a file that it has in one frame.
inline constexpr std::size_t kBranchFrameBytes = kShipPieceBytes + 256;
inline constexpr std::size_t kBranchHeadBytes = 9;

struct BranchFrame {
  enum class What : std::uint8_t {
    // The branch says
    out = 1,         // bytes of the agent's standard output
    err = 2,         // and of its standard error
    complained = 3,  // why it has not been started
    ended = 4,       // as relay_status() has it, in decimal digits: the last
    // The submitter says
    in = 5,     // bytes for its standard input
    drop = 6,   // it is to be ended, without a word
    piece = 7,  // a piece of a file for it: the line of the piece (ship_wire.h), a line end, and the bytes
    again = 8,  // one of the last pieces that came (LastPieces), by its line
  } what = What::out;
  int agent = 0;
  std::string_view bytes{};
  bool operator==(const BranchFrame&) const = default;
};

// As many frames as the bytes need; one for none.
std::string branch_frames(BranchFrame::What what, int agent, std::string_view bytes = {});
// What a `piece` has: the piece, and its bytes. Error: they do not fit together.
Result<std::pair<ShipPiece, std::string_view>> parse_branch_piece(std::string_view bytes);
std::string branch_piece(const ShipPiece& piece, std::string_view bytes);

class BranchDecoder {
 public:
  enum class From { branch, submitter };
  // `agents`: how many there are.
  BranchDecoder(From from, std::size_t agents) : from_(from), agents_(agents) {}
  void feed(std::string_view bytes);
  // The next frame, valid until the next call; nothing: more is needed. Error, from then on: this is no such peer.
  Result<std::optional<BranchFrame>> next();

 private:
  From from_;
  std::size_t agents_;
  std::string held_{};
  std::size_t used_ = 0;
};

}  // namespace dtrain::launcher
