#include "cli/parse/command_words.h"

#include <algorithm>
#include <string>

#include "launcher/service/job_service.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

std::string refused(CommandId command, const std::vector<std::string>& words, Unknown unknown = Unknown::hidden) {
  const auto values = command_words(command, words, unknown);
  REQUIRE_FALSE(values);
  CHECK(values.error().kind == ErrorKind::usage);
  return values.error().message;
}

}  // namespace

TEST_CASE("words of a command: switches, values behind a blank or a =, the last one counts") {
  auto values = command_words(CommandId::token, {"--new", "--file", "a", "--file=b=c"});
  REQUIRE(values);
  CHECK(*values == std::map<std::string, std::string>{{"new", "1"}, {"file", "b=c"}});
  CHECK(command_words(CommandId::token, {"--file", "--new"})->at("file") == "--new");
  CHECK(command_words(CommandId::token, {})->empty());
}

TEST_CASE("words of a command: an error says what it takes, and repeats a word only where it is no secret") {
  const std::string token = "dtrain token takes --new, --code, --join, --file FILE and nothing else";
  for (const char* word : {"--fiel", "secret", "--new=1", "-n", ""}) CHECK(refused(CommandId::token, {word}) == token);
  CHECK(refused(CommandId::status, {"--json", "x"}, Unknown::repeated) ==
        "dtrain status takes --job ID, --json and nothing else (x)");
  CHECK(refused(CommandId::status, {"--jsn"}, Unknown::repeated) == "unknown flag --jsn; did you mean --json?");
  CHECK(refused(CommandId::status, {"--wat=x"}, Unknown::repeated) ==
        "unknown flag --wat; `dtrain help status` lists them");
  CHECK(refused(CommandId::status, {"--json=x"}, Unknown::repeated) == "--json takes no value");
  CHECK(unknown_flag(*find_command("version"), "--jsn").message == "unknown flag --jsn; dtrain version takes none");
  CHECK(refused(CommandId::rendezvous, {"x"}) == "dtrain rendezvous takes serve [flags] and nothing else");
}

TEST_CASE("words of a command: a value that is missing or empty") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--file"}, {"--file", ""}, {"--file="}})
    CHECK(refused(CommandId::token, words) == "--file needs a file's name");
  CHECK(refused(CommandId::status, {"--job"}) == "--job needs the job's id");
  CHECK(refused(CommandId::rendezvous, {"--port="}) == "--port needs a value: N");
}

TEST_CASE("the help of a server's flags says what holds without them") {
  const JobServerLimits limits;
  for (const auto& given : std::map<std::string, std::size_t>{{"port", launcher::ServiceSpec::kUsualPort},
                                                              {"max-jobs", limits.jobs},
                                                              {"max-nodes", limits.nodes},
                                                              {"max-store-mib", limits.store.core.bytes >> 20},
                                                              {"max-store-keys", limits.store.core.keys}}) {
    const auto flags = find_command("rendezvous")->flags;
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const CommandFlag& row) { return row.name == given.first; });
    REQUIRE(flag != flags.end());
    CHECK(flag->help.find("; default " + std::to_string(given.second)) != std::string::npos);
  }
}
