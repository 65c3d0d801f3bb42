// Lines of PMI-1, as Hydra of MPICH 4.0 writes them.
#include "rendezvous/pmi/pmi_wire.h"

#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("a line of PMI-1 is a command and values") {
  const auto line = parse_pmi_line("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  REQUIRE(line.ok());
  CHECK(line->command == "response_to_init");
  CHECK(line->value("rc") == "0");
  CHECK(line->value("nothing").empty());
  CHECK(parse_pmi_line("cmd=barrier_out")->values.empty());
  CHECK(parse_pmi_line("cmd=get_result rc=0 msg=success value=a=b;c+/=")->value("msg") == "success");
  CHECK(parse_pmi_line("cmd=get_result rc=0 msg=success value=a=b;c+/=")->value("value") == "a=b;c+/=");
  CHECK(parse_pmi_line("cmd=put_result rc=-1 msg=duplicate key dtrain-card-0")->value("msg") ==
        "duplicate key dtrain-card-0");
  CHECK(parse_pmi_line("rc=0  cmd=x ")->command == "x");
}

TEST_CASE("what is no line of PMI-1 is an error that shows it") {
  for (const char* text : {"", "cmd", "=x", "rc=0", "cmd=", "x cmd=y", "cmd=x =y"}) {
    INFO(text);
    const auto line = parse_pmi_line(text);
    REQUIRE_FALSE(line.ok());
    CHECK(line.error().message == "PMI: the launcher says '" + std::string(text) + "'");
  }
}

TEST_CASE("a question of PMI-1 is one line of words") {
  CHECK(pmi_line("barrier_in") == "cmd=barrier_in\n");
  CHECK(pmi_line("put", {{"kvsname", "kvs_1"}, {"key", "a"}, {"value", "x=y"}}) ==
        "cmd=put kvsname=kvs_1 key=a value=x=y\n");
}
