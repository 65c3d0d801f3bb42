// What a submitter and a branch say to each other.
#include "launcher/engine_wire/branch_wire.h"

#include "launcher/engine_wire/agent_wire.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using What = BranchFrame::What;
using From = BranchDecoder::From;

namespace {

struct KeptFrame {
  What what;
  int agent;
  std::string bytes;
  bool operator==(const KeptFrame&) const = default;
};

// What a decoder makes of a text that comes in pieces of this size.
std::vector<KeptFrame> kept_frames(From from, const std::string& text, std::size_t piece) {
  BranchDecoder decoder(from, 3);
  std::vector<KeptFrame> kept;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    decoder.feed(std::string_view(text).substr(at, piece));
    for (;;) {
      const auto frame = decoder.next();
      REQUIRE(frame.ok());
      if (!*frame) break;
      kept.push_back({(*frame)->what, (*frame)->agent, std::string((*frame)->bytes)});
    }
  }
  return kept;
}

std::string frame_error(From from, const std::string& text) {
  BranchDecoder decoder(from, 3);
  decoder.feed(text);
  const auto frame = decoder.next();
  if (frame) return *frame ? "a frame" : "more is needed";
  CHECK_FALSE(decoder.next().ok());
  return frame.error().message;
}

}  // namespace

TEST_CASE("frames of agents come through however a pipe cuts them") {
  const std::string up = branch_frames(What::out, 0, "one\n") + branch_frames(What::err, 2, std::string("\0two", 4)) +
                         branch_frames(What::complained, 1, "why") + branch_frames(What::ended, 1, "-9");
  const std::vector<KeptFrame> all{{What::out, 0, "one\n"},
                                   {What::err, 2, std::string("\0two", 4)},
                                   {What::complained, 1, "why"},
                                   {What::ended, 1, "-9"}};
  for (const std::size_t piece : {1, 2, 9, 10, 1000}) CHECK(kept_frames(From::branch, up, piece) == all);
  const std::string down = branch_frames(What::in, 2, "go\n") + branch_frames(What::drop, 1);
  CHECK(kept_frames(From::submitter, down, 3) == std::vector<KeptFrame>{{What::in, 2, "go\n"}, {What::drop, 1, ""}});
}

TEST_CASE("long bytes of an agent are several frames") {
  const std::string bytes(3 * kBranchFrameBytes + 1, 'x');
  const auto kept = kept_frames(From::submitter, branch_frames(What::in, 1, bytes), 1000);
  REQUIRE(kept.size() == 4);
  std::string joined;
  for (const KeptFrame& each : kept) joined += each.bytes;
  CHECK(joined == bytes);
}

TEST_CASE("what no branch says, or is said to none, is an error") {
  const auto odd = Contains("is not what dtrain's branch");
  CHECK_THAT(frame_error(From::branch, std::string("\0", 1)), odd);
  CHECK_THAT(frame_error(From::branch, branch_frames(What::in, 0, "x")), odd);
  const auto odd_for_branch = Contains("is not what dtrain says to a branch");
  CHECK_THAT(frame_error(From::submitter, branch_frames(What::out, 0, "x")), odd_for_branch);
  CHECK_THAT(frame_error(From::submitter, "\x09"), odd_for_branch);
  CHECK_THAT(frame_error(From::branch, branch_frames(What::out, 3, "x")), odd);
  std::string long_one = branch_frames(What::out, 0, "x");
  long_one[6] = 2;
  CHECK_THAT(frame_error(From::branch, long_one), odd);
  CHECK(frame_error(From::branch, branch_frames(What::out, 2, "x")) == "a frame");
  CHECK(frame_error(From::branch, branch_frames(What::out, 2, "x").substr(0, 9)) == "more is needed");
}

TEST_CASE("a plan tells a branch what to start, and is no task") {
  const BranchPlan plan{2, {{"ssh", "a b", "exec dtrain agent"}, {"ssh", "c"}}};
  const auto line = branch_plan_line(plan);
  REQUIRE(line.ok());
  CHECK(line->find('\n') == std::string::npos);
  const auto again = parse_branch_plan(*line);
  REQUIRE((again.ok() && again->has_value()));
  CHECK(**again == plan);
  CHECK_FALSE(parse_agent_task(*line).ok());
  AgentTask task;
  task.words = {"--", "branch"};
  const auto other = parse_branch_plan(*task_line(task));
  CHECK((other.ok() && !other->has_value()));
  for (const char* wrong :
       {R"({"branch":1})", R"({"branch":{}})", R"({"branch":{"fanout":0,"commands":[["a"]]}})",
        R"({"branch":{"fanout":2,"commands":[]}})", R"({"branch":{"fanout":2,"commands":[[]]}})",
        R"({"branch":{"fanout":2,"commands":[["a\u0000"]]}})", R"({"branch":{"fanout":2,"commands":[[1]]}})"})
    CHECK_FALSE(parse_branch_plan(wrong).ok());
  const std::vector<std::string> long_command{"ssh", std::string(kLongestAgentLine, 'x')};
  const auto too_long = branch_plan_line({2, {long_command}});
  CHECK(too_long.error().kind == ErrorKind::usage);
  CHECK_THAT(too_long.error().message, Contains("are 5 MiB, and at most 4 MiB") && Contains("--ssh-fanout"));
  const auto odd = branch_plan_line({2, {{"ssh", "-i", "/k\xff"}}});
  CHECK(odd.error().kind == ErrorKind::usage);
  CHECK_THAT(odd.error().message, Contains("' in the command for a host is not UTF-8"));
}

TEST_CASE("a branch that is ready says so, as an agent speaks") {
  CHECK(is_of_agent(branch_ready_line()));
  CHECK(is_branch_ready("motd: " + branch_ready_line()));
  CHECK_FALSE(is_branch_ready(verdict_line({})));
  CHECK_FALSE(is_branch_ready("{\"branch\":true}"));
  CHECK_FALSE(parse_agent_card(branch_ready_line()).ok());
}

TEST_CASE("a piece of a file is in one frame, with what it is") {
  const ShipPiece piece{kMostShipFiles - 1, kMostShipBytes - 1, kShipPieceBytes};
  const std::string bytes(kShipPieceBytes, '\n');
  const std::string text = branch_piece(piece, bytes);
  CHECK(text.size() <= kBranchFrameBytes);
  const auto parsed = parse_branch_piece(text);
  REQUIRE(parsed.ok());
  CHECK(parsed->first == piece);
  CHECK(parsed->second == bytes);
  CHECK_FALSE(parse_branch_piece(text + "x").ok());
  CHECK_FALSE(parse_branch_piece(text.substr(0, text.size() - 1)).ok());
  CHECK_FALSE(parse_branch_piece(ship_piece_line(piece)).ok());
  CHECK_FALSE(parse_branch_piece("").ok());
}
