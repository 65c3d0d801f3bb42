// What an engine and an agent say to each other.
#include "launcher/engine_wire/agent_wire.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;

TEST_CASE("a card, a task and an answer come through as they are") {
  const AgentCard card{"dtrain 1.0", "host1", {"10.0.0.1", "fd00::1"}};
  CHECK(is_of_agent(card_line(card)));
  CHECK(*parse_agent_card(card_line(card)) == card);

  AgentTask task{"torchrun", {"--nproc=2", "--", "a b", "$x", "é\n"}, {{"A", "1"}, {"B", "two\nlines"}}, "/work", {}};
  task.looks_for = "/cache/k.tmp.j";
  task.place = {"ssh", "2", "1", "10.0.0.1:20000", "job-1", "2"};
  CHECK(*parse_agent_task(*task_line(task)) == task);
  task.origins = {{"nproc", "job.yaml:3: nproc"}};
  const auto line = task_line(task);
  REQUIRE(line.ok());
  CHECK(line->find('\n') == std::string::npos);
  CHECK(*parse_agent_task(*line) == task);

  CHECK(parse_agent_verdict(verdict_line({})).ok());
  for (const auto kind : {ErrorKind::usage, ErrorKind::not_found, ErrorKind::not_executable, ErrorKind::system}) {
    const auto verdict = parse_agent_verdict(verdict_line(Error{kind, "no 'x'\n"}));
    REQUIRE_FALSE(verdict.ok());
    CHECK(verdict.error().kind == kind);
    CHECK(verdict.error().message == "no 'x'\n");
  }
}

TEST_CASE("what a login shell prints is not the agent's") {
  for (const char* line : {"", "Welcome to host1", "{\"protocol\":1}", "dtrain-agent"}) CHECK_FALSE(is_of_agent(line));
}

TEST_CASE("a shell may have printed something on the agent's line") {
  CHECK(parse_agent_card("\x1b]0;me@host\x07" + card_line({"v", "h", {}})).ok());
}

TEST_CASE("lines that make no sense are errors") {
  for (const char* line : {"dtrain-agent", "dtrain-agent {", "dtrain-agent []", "dtrain-agent {}",
                           "dtrain-agent {\"protocol\":\"1\"}", "dtrain-agent {\"protocol\":1,\"addresses\":[1]}"})
    CHECK_FALSE(parse_agent_card(line).ok());
  CHECK_THAT(parse_agent_card("dtrain-agent {\"protocol\":2,\"version\":\"dtrain 9\"}").error().message,
             Contains("dtrain 9 is there, which speaks another protocol"));
  for (const char* line :
       {"", "{}", "{\"words\":[],\"env\":{}}", "{\"words\":[1],\"env\":{},\"place\":{}}",
        "{\"words\":[],\"env\":{\"A=B\":\"\"},\"place\":{}}", "{\"words\":[\"a\\u0000b\"],\"env\":{},\"place\":{}}",
        "{\"words\":[],\"env\":{\"\":\"\"},\"place\":{}}"})
    CHECK_FALSE(parse_agent_task(line).ok());
  CHECK(parse_agent_task("{\"words\":[],\"env\":{},\"place\":{}}").ok());
  for (const char* line : {"dtrain-agent {}", "dtrain-agent {\"ready\":false}", "dtrain-agent {\"ready\":1}", "go"})
    CHECK_FALSE(parse_agent_verdict(line).ok());
}

TEST_CASE("a task that cannot be sent names what it is") {
  CHECK_THAT(task_line({"dtrain", {"\xff"}, {}, "/", {}}).error().message, Contains("is not UTF-8"));
  CHECK_THAT(task_line({"dtrain", {}, {{"BAD", "\xff"}}, "/", {}}).error().message,
             Contains("the variable BAD is not"));
  CHECK_THAT(task_line({"dtrain", {}, {}, "/\xff", {}}).error().message, Contains("the folder"));
  const std::string big(kLongestAgentLine, 'x');
  CHECK_THAT(task_line({"dtrain", {big}, {}, "/", {}}).error().message, Contains("at most 4 MiB can be sent"));
}
