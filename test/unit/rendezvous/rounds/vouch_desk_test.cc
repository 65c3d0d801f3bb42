// Who is asked whether a connection is a worker's, and what comes of the answers.
#include "rendezvous/rounds/vouch_desk.h"

#include <utility>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

struct Desk {
  std::vector<std::pair<MemberId, std::uint64_t>> asked;
  std::vector<bool> answers;
  VouchDesk desk{[this](MemberId id, const msg::Whose& whose) { asked.emplace_back(id, whose.question); }};

  void question(const std::string& from) {
    desk.question({from, 4711, "10.0.0.1", 29400}, [this](bool yes) { answers.push_back(yes); });
  }
};

using Answers = std::vector<bool>;

}  // namespace

TEST_CASE("only agents of the same host are asked, and one yes is enough") {
  Desk d;
  d.desk.came(1, "10.0.0.2");
  d.desk.came(2, "10.0.0.2");
  d.desk.came(3, "10.0.0.3");
  d.question("10.0.0.2");
  REQUIRE(d.asked.size() == 2);
  const auto number = d.asked[0].second;
  d.desk.answered(3, {number, true});  // it was not asked
  CHECK(d.answers.empty());
  d.desk.answered(1, {number, false});
  d.desk.answered(1, {number, false});  // it has spoken
  CHECK(d.answers.empty());
  d.desk.answered(2, {number, true});
  CHECK(d.answers == Answers{true});
  d.desk.answered(1, {number, true});  // too late
  CHECK(d.answers == Answers{true});
  CHECK(d.desk.open() == 0);
}

TEST_CASE("nobody of that host, or only no: not vouched for") {
  Desk d;
  d.question("10.0.0.9");
  CHECK(d.answers == Answers{false});
  d.desk.came(1, "10.0.0.2");
  d.question("10.0.0.2");
  d.desk.answered(1, {d.asked[0].second, false});
  CHECK(d.answers == Answers{false, false});
}

TEST_CASE("an agent that goes says no to what it was asked") {
  Desk d;
  d.desk.came(1, "10.0.0.2");
  d.question("10.0.0.2");
  d.question("10.0.0.2");
  d.desk.left(1);
  CHECK(d.answers == Answers{false, false});
  d.desk.left(1);
  d.question("10.0.0.2");
  CHECK(d.answers == Answers{false, false, false});
}

TEST_CASE("questions that nobody answers do not heap up") {
  Desk d;
  d.desk.came(1, "10.0.0.2");
  for (std::size_t i = 0; i < VouchDesk::kMost + 10; ++i) d.question("10.0.0.2");
  CHECK(d.desk.open() == VouchDesk::kMost);
  CHECK(d.answers.empty());
}
