// The first line of a file with kept state, the file's name, and whose it is.
#include "launcher/spill/state_file_wire.h"

#include "launcher/job/state_job_name.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;

namespace {

const StateHead kHead{{"main.4711.0", 1, 3, 5, 8, true}, std::uint64_t{5} << 33};

std::string why_no_head(const std::string& text) {
  const auto head = parse_state_head(text);
  return head ? "" : head.error().message;
}

std::string with_word(const std::string& word, const std::string& other) {
  std::string text = state_head_text(kHead);
  return text.replace(text.find(word), word.size(), other);
}

}  // namespace

TEST_CASE("the head of a state's file comes back as it was") {
  const std::string text = state_head_text(kHead);
  CHECK(text.size() == kStateHeadBytes);
  CHECK(*parse_state_head(text) == kHead);
  CHECK(state_file_bytes(kHead) == 4096 + kHead.bytes + 4);
  StateHead odd = kHead;
  for (const char* job : {"a\"/\n\xc3\xa4", "exp[3]", "{\"a\": 1}", "'%41%", "\xff\xfe\x80"}) {
    odd.owner.job = job;
    CHECK(*parse_state_head(state_head_text(odd)) == odd);
  }
  odd.owner = {std::string(kLongestStateJob / 3, '['), 1 << 24, 1 << 24, 1 << 24, 1 << 24, true};
  odd.bytes = kMostStateBytes;
  CHECK(*parse_state_head(state_head_text(odd)) == odd);
  CHECK(unfinished_name(state_file_name(odd.owner)).size() <= 255);
  CHECK(parse_state_sum(state_sum_text(0x89abcdef)) == 0x89abcdef);
}

TEST_CASE("what is no head of a state is refused") {
  const std::string text = state_head_text(kHead), damaged = "it is no state that dtrain has written, or it is damaged";
  CHECK(why_no_head("") == damaged);
  CHECK(why_no_head(std::string(kStateHeadBytes, '\0')) == damaged);
  CHECK(why_no_head(text.substr(0, kStateHeadBytes - 1)) == damaged);
  CHECK(why_no_head(std::string(kStateHeadBytes - 1, '{') + "\n") == damaged);
  CHECK(why_no_head(with_word("\"job\"", "\"job ")) == damaged);
  CHECK(why_no_head(with_word(":1,", ":2,")) == "it has version 2 of the format, and this dtrain has version 1");
  const std::string line = "its first line is damaged";
  CHECK(why_no_head(with_word("\"job\"", "\"jab\"")) == line);
  CHECK(why_no_head(with_word("\"node\":1", "\"node\":-")) == damaged);
  CHECK(why_no_head(with_word("\"nodes\":3", "\"nodes\":\"\"")) != "");
  CHECK(why_no_head(with_word("\"bytes\":42949672960", "\"bytes\":99999999999999999999")) != "");
  CHECK(why_no_head(with_word("\"bytes\":42949672960", "\"bytes\":-2949672960")) == line);
  CHECK(why_no_head(with_word("true", "1   ")) == line);
  for (const char* name : {"main.4711.%", "main.4711%2", "main.471%2f", "main.4%XX.0"})
    CHECK(why_no_head(with_word("main.4711.0", name)) == line);
}

TEST_CASE("a state is that of its place in its job, and of no other") {
  const StateOwner own{"4711", 1, 2, 3, 4, false};
  StateOwner other = own;
  CHECK_FALSE(why_not_its_state(own, own));
  other.job = "4712";
  CHECK(*why_not_its_state(other, own) == "it is of job '4712', and this is '4711'");
  other = own;
  other.nodes = 3;
  CHECK(
      *why_not_its_state(other, own) ==
      "it was written by a node with 4 workers in a job of 3 nodes; this node has 4 workers, and the job has 2 nodes");
  other = own;
  other.workers = 1;
  CHECK_THAT(*why_not_its_state(other, own), Contains("it was written by a node with 1 worker in a job of 2 nodes"));
  other = own;
  other.copy = true;
  CHECK(*why_not_its_state(other, own) == "it is of worker 3 of node 1 (a copy): somebody has renamed it");
}

TEST_CASE("names of states tell jobs and nodes apart") {
  CHECK(state_file_name(kHead.owner) == "dtrain-state.main.4711.0.n1.w5.copy");
  const std::string name = state_file_name({"a/b", 12, 20, 0, 1, false});
  CHECK(name == "dtrain-state.a%2Fb.n12.w0");
  CHECK(unfinished_name(name) == name + ".part");
  CHECK(is_state_file(name, "a/b", {}));
  CHECK(is_state_file(unfinished_name(name), "a/b", 12));
  CHECK(is_state_file("dtrain-state.a.n0.w1.copy", "a", {}));
  CHECK_FALSE(is_state_file(name, "a/b", 1));
  CHECK_FALSE(is_state_file(name, "a", {}));
  CHECK_FALSE(is_state_file("dtrain-state.a.n0.n0.w0", "a", {}));  // of job a.n0
  CHECK(is_state_file("dtrain-state.a.n0.n0.w0", "a.n0", {}));
  for (const char* no : {"", "dtrain-state.a", "dtrain-state.a.n.w0", "dtrain-state.a.n0.w", "dtrain-state.a.n0.w0x",
                         "x-dtrain-state.a.n0.w0", "dtrain-state.a.n0.w0.part.copy"})
    CHECK_FALSE(is_state_file(no, "a", {}));
}
