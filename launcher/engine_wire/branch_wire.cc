// Tested by test/unit/launcher/engine_wire/branch_wire_test.cc.
#include "launcher/engine_wire/branch_wire.h"

#include <fmt/format.h>

#include "launcher/engine_wire/json_line.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using What = BranchFrame::What;

void append_number(std::string& text, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>((number >> shift) & 0xff));
}

std::size_t number_at(std::string_view text, std::size_t at) {
  std::size_t number = 0;
  for (std::size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<unsigned char>(text[i]);
  return number;
}

bool can_run(const std::vector<std::string>& command) {
  for (const std::string& word : command)
    if (word.find('\0') != std::string::npos) return false;
  return !command.empty() && !command[0].empty();
}

}  // namespace

Result<std::string> branch_plan_line(const BranchPlan& plan) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  for (const auto& command : plan.commands)
    for (const std::string& word : command)
      if (!is_utf8(word))
        return Error{ErrorKind::usage, fmt::format("'{}' in the command for a host is not UTF-8, and only that can be "
                                                   "sent to other hosts",
                                                   printable(word))};
  std::string line = one_line({{"branch", {{"fanout", plan.fanout}, {"commands", plan.commands}}}});
  if (line.size() <= kLongestAgentLine) return line;
  return Error{ErrorKind::usage,
               fmt::format("the commands for the hosts are {} MiB, and at most {} MiB can be sent to one host: give a "
                           "larger --ssh-fanout",
                           (line.size() + kMiB - 1) / kMiB, kLongestAgentLine / kMiB)};
}

Result<std::optional<BranchPlan>> parse_branch_plan(std::string_view line) {
  const auto json = json_object(line);
  if (!json || !json->contains("branch")) return std::optional<BranchPlan>();
  const Error wrong{ErrorKind::system, "the plan of a branch has no fanout or commands of the right types"};
  const Json& branch = (*json)["branch"];
  if (!branch.is_object()) return wrong;
  const auto fanout = typed_member<int>(branch, "fanout");
  auto commands = typed_member<std::vector<std::vector<std::string>>>(branch, "commands");
  if (!fanout || *fanout < 1 || !commands || commands->empty()) return wrong;
  for (const auto& command : *commands)
    if (!can_run(command)) return wrong;
  return std::optional(BranchPlan{*fanout, std::move(*commands)});
}

std::string branch_ready_line() { return agent_line({{"branch", true}}); }

bool is_branch_ready(std::string_view line) {
  const auto json = agent_json(line);
  return json && typed_member<bool>(*json, "branch") == true;
}

std::string branch_frames(What what, int agent, std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + kBranchHeadBytes * (bytes.size() / kBranchFrameBytes + 1));
  do {
    const std::string_view part = bytes.substr(0, kBranchFrameBytes);
    text.push_back(static_cast<char>(what));
    append_number(text, static_cast<std::size_t>(agent));
    append_number(text, part.size());
    text.append(part);
    bytes.remove_prefix(part.size());
  } while (!bytes.empty());
  return text;
}

std::string branch_piece(const ShipPiece& piece, std::string_view bytes) {
  return ship_piece_line(piece) + "\n" + std::string(bytes);
}

Result<std::pair<ShipPiece, std::string_view>> parse_branch_piece(std::string_view bytes) {
  const auto end = bytes.find('\n');
  const auto piece = parse_ship_piece(bytes.substr(0, end));
  if (!piece) return piece.error();
  const std::string_view content = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
  if (content.size() == piece->size) return std::pair(*piece, content);
  return Error{ErrorKind::system, "what came is no piece of a file"};
}

void BranchDecoder::feed(std::string_view bytes) {
  held_.erase(0, std::exchange(used_, 0));
  held_.append(bytes);
}

Result<std::optional<BranchFrame>> BranchDecoder::next() {
  const std::string_view rest = std::string_view(held_).substr(used_);
  if (rest.empty()) return std::optional<BranchFrame>();
  const auto what = static_cast<What>(rest[0]);
  const bool is_of_branch = from_ == From::branch;
  const Error odd{ErrorKind::system, is_of_branch
                                         ? "what comes is not what dtrain's branch of a tree of hosts says"
                                         : "what comes is not what dtrain says to a branch of a tree of hosts"};
  if (what < (is_of_branch ? What::out : What::in) || what > (is_of_branch ? What::ended : What::again)) return odd;
  if (rest.size() < kBranchHeadBytes) return std::optional<BranchFrame>();
  const std::size_t agent = number_at(rest, 1), size = number_at(rest, 5);
  if (agent >= agents_ || size > kBranchFrameBytes) return odd;
  if (rest.size() < kBranchHeadBytes + size) return std::optional<BranchFrame>();
  used_ += kBranchHeadBytes + size;
  return std::optional(BranchFrame{what, static_cast<int>(agent), rest.substr(kBranchHeadBytes, size)});
}

}  // namespace dtrain::launcher
