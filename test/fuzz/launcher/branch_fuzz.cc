// Fuzzes what a submitter and a branch of a tree of hosts say to each other. The first byte chooses: a plan, or frames
// of one of the two in pieces as long as the second byte says. What comes out goes in again as it is.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/engine_wire/branch_wire.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

constexpr std::size_t kAgents = 3;

void require(bool condition) {
  if (!condition) std::abort();
}

void plan(const std::string& text) {
  (void)is_branch_ready(text);
  const auto plan = parse_branch_plan(text);
  if (!plan || !*plan) return;
  require((*plan)->fanout > 0 && !(*plan)->commands.empty());
  const auto line = branch_plan_line(**plan);
  require(line.ok() && **parse_branch_plan(*line) == **plan);
}

void piece(std::string_view bytes) {
  const auto parsed = parse_branch_piece(bytes);
  if (!parsed) return;
  require(parsed->second.size() == parsed->first.size);
  const std::string text = branch_piece(parsed->first, parsed->second);
  const auto again = parse_branch_piece(text);
  require(text.size() <= kBranchFrameBytes && again.ok() && again->first == parsed->first);
}

void frames(BranchDecoder::From from, std::string_view text) {
  if (text.empty()) return;
  const std::size_t size = static_cast<unsigned char>(text[0]) + std::size_t{1};
  text.remove_prefix(1);
  BranchDecoder decoder(from, kAgents);
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) {
    decoder.feed(text.substr(0, size));
    for (;;) {
      const auto frame = decoder.next();
      if (!frame) return require(!frame.error().message.empty() && !decoder.next().ok());
      if (!*frame) break;
      const BranchFrame& got = **frame;
      require(got.agent >= 0 && static_cast<std::size_t>(got.agent) < kAgents);
      require((got.what <= BranchFrame::What::ended) == (from == BranchDecoder::From::branch));
      require(branch_frames(got.what, got.agent, got.bytes).size() == got.bytes.size() + kBranchHeadBytes);
      if (got.what == BranchFrame::What::piece) piece(got.bytes);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 3 == 0)
    plan(text);
  else
    frames(data[0] % 3 == 1 ? BranchDecoder::From::branch : BranchDecoder::From::submitter, text);
  return 0;
}
