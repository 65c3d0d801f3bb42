// The agent link's bytes: every message comes back as it was, however it is cut; what is no message is refused.
#include "rendezvous/rounds/round_wire.h"

#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::vector<RoundMessage> one_of_each() {
  return {msg::Join{{"job",
                     "id",
                     "host",
                     7,
                     "role",
                     "rack1",
                     3,
                     -1,
                     1,
                     4,
                     2,
                     38000,
                     true,
                     {~std::uint64_t{0}, 5, 6, 9, 7, 8},
                     {},
                     {},
                     3,
                     "fd00::9",
                     65535}},
          msg::Failed{1, 2, "exit code 3", 3, true, 70'000, "left the job"},
          msg::Over{5, true, 12},
          msg::Leaving{15, true},
          msg::Ping{std::int64_t{1} << 62, -5, 6},
          msg::Ask{},
          msg::Here{},
          msg::Owned{~std::uint64_t{0}, true},
          msg::Seek{~std::uint64_t{0}, 2, 3, 4, "10.0.0.1", 29400},
          msg::Vote{5, -6, true, 7, ~std::uint64_t{0}},
          msg::Refused{"why", true},
          msg::Waiting{1, 2, 3, -1, true, "node 2 was lost", "missing node 2"},
          msg::Open{{1, 2, 3, 4, 5, 6, 7, 8, "127.0.0.1", 29500, false},
                    std::uint64_t{1} << 63,
                    {~std::uint64_t{0}, {1, 2}, {{}, {3, ~std::uint64_t{0}}}, {{4, "::1", 5}, {6, "", 0}}}},
          msg::Stop{-1, 2, std::string("with\0zero", 9), msg::kSomebody, ""},
          msg::End{{JobEnd::refused, 125, -1, ""}},
          msg::Pong{-1, 2, -3},
          msg::Facts{{"running",
                      3,
                      1,
                      2,
                      1,
                      4,
                      -1,
                      12,
                      "",
                      {{"node1", 11, 0, 0, 8, "running"}, {"node2", 12, 1, 8, 8, "over"}},
                      {{1500, "round 3 opens"}}}},
          msg::Whose{7, {"10.0.0.2", 65535, "fd00::1", 29400}},
          msg::Welcome{true},
          msg::Ballot{1, -2, 3, -4},
          msg::HostAt{1, {"10.0.0.1", ""}, 2, -3}};
}

std::string stream_of(const std::vector<RoundMessage>& messages) {
  std::string bytes(kRoundGreeting);
  for (const auto& m : messages) bytes += encode(m);
  return bytes;
}

std::string refusal(const std::string& bytes) {
  RoundDecoder decoder;
  decoder.feed(bytes);
  auto status = decoder.next();
  while (status == RoundDecoder::Status::message) status = decoder.next();
  CHECK(status == RoundDecoder::Status::bad);
  CHECK(decoder.next() == RoundDecoder::Status::bad);
  return decoder.error();
}

std::string frame(const std::string& body) {
  std::string bytes(kRoundGreeting);
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(body.size() >> (8 * i) & 0xff);
  return bytes + body;
}

}  // namespace

TEST_CASE("every message survives the wire, whole and byte by byte") {
  const auto sent = one_of_each();
  REQUIRE(sent.size() == std::variant_size_v<RoundMessage>);
  const std::string bytes = stream_of(sent);
  for (const std::size_t piece : {bytes.size(), std::size_t{1}, std::size_t{7}}) {
    RoundDecoder decoder;
    std::vector<RoundMessage> got;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.feed(std::string_view(bytes).substr(at, piece));
      while (decoder.next() == RoundDecoder::Status::message) got.push_back(decoder.message());
      CHECK(decoder.error().empty());
    }
    CHECK(got == sent);
    CHECK(decoder.held_bytes() == 0);
  }
}

TEST_CASE("what is no dtrain agent is refused at its first wrong byte") {
  CHECK(refusal(std::string("\0\xce\xf7\x85\x3c", 5)) == "this is not a dtrain agent");
  CHECK(refusal("HTTP/1.0") == "this is not a dtrain agent");
  CHECK(refusal(std::string(kRoundGreeting.substr(0, 3)) + "x") == "this is not a dtrain agent");
  std::string other(kRoundGreeting);
  other.back() = 8;
  CHECK(refusal(other) == "the agent there speaks version 8 of the protocol, this one version 10");
}

TEST_CASE("frames that lie are refused") {
  CHECK(refusal(frame("")) == "a frame of 0 bytes");
  CHECK(refusal(std::string(kRoundGreeting) + "\xff\xff\xff\xff").find("a frame of 4294967295 bytes") == 0);
  const std::string over = encode(msg::Over{1, true}).substr(4);
  CHECK(refusal(frame(over.substr(0, over.size() - 1))).find("not a message") != std::string::npos);  // too short
  CHECK(refusal(frame(over + "x")).find("not a message") != std::string::npos);                       // too long
  const std::string lie = over.substr(0, 5) + "\x02" + over.substr(6);                                // a bool
  CHECK(refusal(frame(lie)).find("not a message") != std::string::npos);
  CHECK(refusal(frame(std::string(1, char(200)))).find("not a message (type 200, 1 bytes)") != std::string::npos);
  const std::string end = encode(msg::End{}).substr(4);
  CHECK(refusal(frame(end.substr(0, 1) + "\x06" + end.substr(2))).find("not a message") != std::string::npos);
  const std::string refused = encode(msg::Refused{}).substr(4);
  CHECK(refusal(frame(refused.substr(0, 1) + "\xff\xff\xff\xff")).find("not a message") != std::string::npos);
}

TEST_CASE("long texts are cut, and no message is longer than a frame") {
  const std::string text(100000, 'x');
  msg::Join join{{text, text, text, 1, text, text, 1, -1, 1, 1, 0, 0}};
  const std::string bytes = encode(join);
  CHECK(bytes.size() <= kRoundFrameBytes);
  RoundDecoder decoder;
  decoder.feed(std::string(kRoundGreeting) + bytes);
  REQUIRE(decoder.next() == RoundDecoder::Status::message);
  CHECK(std::get<msg::Join>(decoder.message()).node.host == text.substr(0, kRoundTextBytes));
}

TEST_CASE("a round of most voters fits into a frame") {
  const VoterSet voters(kMostVoters, ~VoterId{0});
  Electorate electorate{1, voters, std::vector<VoterSet>(kMostVoterSets, voters), {}};
  electorate.candidates.assign(kMostCandidates, {1, std::string(100, 'a'), 65535});
  const std::string bytes = encode(msg::Open{{}, 1, electorate});
  CHECK(bytes.size() <= kRoundFrameBytes + 4);
  std::string lie = encode(msg::Open{}).substr(4);
  lie[lie.size() - 4] = '\x7f';  // so many candidates
  CHECK(refusal(frame(lie)).find("not a message") != std::string::npos);
}

TEST_CASE("what a host tells of itself fits into a frame at its largest, and cannot lie about its length") {
  JobFacts job;
  job.missing = std::string(kRoundTextBytes, 'm');
  for (std::size_t i = 0; i < kFactsNodes; ++i)
    job.list.push_back({std::string(kFactsNameBytes, 'h'), 1 << 30, 1 << 30, 1 << 30, 1 << 30, "running"});
  DecisionLog log;
  for (std::size_t i = 0; i < 2 * kDecisions; ++i) log.add(std::to_string(i) + std::string(1000, 'd'), {});
  job.decisions = log.list(MonoTime{} + std::chrono::seconds(1));
  CHECK(job.decisions.size() == kDecisions);
  CHECK(job.decisions.back().age_ms == 1000);
  const std::string bytes = encode(msg::Facts{job});
  CHECK(bytes.size() <= kRoundFrameBytes + 4);
  RoundDecoder decoder;
  decoder.feed(std::string(kRoundGreeting) + bytes);
  REQUIRE(decoder.next() == RoundDecoder::Status::message);
  CHECK(std::get<msg::Facts>(decoder.message()).job == job);

  std::string lie = encode(msg::Facts{}).substr(4);
  lie[lie.size() - 8] = '\xff';  // so many nodes
  CHECK(refusal(frame(lie)).find("not a message") != std::string::npos);
}

TEST_CASE("a decision that is taken again and again is remembered once") {
  DecisionLog log;
  log.add("a", {});
  log.add("b", {});
  log.add("b", MonoTime{} + std::chrono::milliseconds(5));
  const auto all = log.list(MonoTime{} + std::chrono::milliseconds(7));
  REQUIRE(all.size() == 2);
  CHECK(all[1] == Decision{2, "b"});
}
