// Where a node of SLURM's is.
#include "cli/machine/slurm_address.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;

TEST_CASE("the address of a name that resolves, or that nobody can be asked for, is the name") {
  CHECK(slurm_address("localhost", "/no/scontrol") == "localhost");
  const std::string nowhere(70, 'x');  // longer than a label of a name can be: no server is asked for it
  CHECK(slurm_address(nowhere, "") == nowhere);
  CHECK(slurm_address(nowhere, "/bin/false") == nowhere);
  CHECK(slurm_address("-x", "/bin/echo") == "-x");  // it would be an option of scontrol's
}

TEST_CASE("the address in what scontrol prints") {
  CHECK(node_address("NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.7 NodeHostName=vm Port=1\n") == "10.0.0.7");
  CHECK(node_address("NodeName=n1 NodeAddr=fd00::7\nNodeAddr=x").find("fd00::7") == 0);
  CHECK(node_address("Node n1 not found\n").empty());
  CHECK(node_address("").empty());
}
