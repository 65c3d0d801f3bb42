#include "cli/predict/predict.h"

#include <elf.h>

#include <string>
#include <vector>

#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using dtrain::cli::predict_as_run;
using Words = std::vector<std::string>;

namespace {

cli::Host predict_host() {
  return cli::test_host({{"p.py", cli::plain_file()},
                         {"./prog", cli::executable_file(cli::elf_head(EM_X86_64))},
                         {"./script", cli::executable_file("#!/usr/bin/env python3\n")}});
}

Words words_as_run(const Words& words) { return predict_as_run(words, predict_host())->words; }

std::string refusal(const Words& words, cli::Host host = predict_host()) {
  const auto as_run = predict_as_run(words, host);
  return as_run ? "" : as_run.error().message;
}

}  // namespace

TEST_CASE("predict is a run of a module with the same flags") {
  CHECK(words_as_run({"--nproc", "3", "p.py", "in", "out", "--size=2"}) ==
        Words{"--module", "--nproc", "3", "dtrain_data", "predict", "p.py", "in", "out", "--size=2"});
  CHECK(words_as_run({"-t3", "--", "p.py", "in", "out"}) ==
        Words{"--module", "-t3", "--", "dtrain_data", "predict", "p.py", "in", "out"});
  CHECK(words_as_run({"./script", "in", "out"})[0] == "--module");
  CHECK(words_as_run({"./not-here", "in", "out"})[0] == "--module");
}

TEST_CASE("predict with a program is a run of it") {
  CHECK(words_as_run({"--nproc", "3", "./prog", "in", "out", "--size=2"}) ==
        Words{"--nproc", "3", "./prog", "in", "out", "--size=2"});
}

TEST_CASE("predict takes a recipe for raw rows, and says which word the rows are") {
  auto run =
      *predict_as_run({"--recipe", "r.json", "-t3", "--filter", "p.py", "in", "out", "--filter"}, predict_host());
  CHECK(run.words == Words{"--module", "-t3", "dtrain_data", "predict", "p.py", "in", "out", "--filter"});
  REQUIRE(run.raw_input);
  CHECK(run.raw_input->recipe == "r.json");
  CHECK(run.raw_input->filter);
  CHECK(run.raw_input->without.empty());
  CHECK(run.raw_input->place == 3);
  run = *predict_as_run({"--recipe=config", "--without=a,b", "--keep", "id", "./prog", "in", "out"}, predict_host());
  CHECK(run.words == Words{"./prog", "in", "out"});
  CHECK(run.raw_input->recipe == "config");
  CHECK(run.raw_input->without == Words{"a", "b"});
  CHECK(run.raw_input->keep == Words{"id"});
  CHECK_FALSE(run.raw_input->filter);
  CHECK(run.raw_input->place == 1);
  CHECK_FALSE(predict_as_run({"p.py", "in", "out"}, predict_host())->raw_input);
  for (const char* wrong : {"--keep=a,a", "--keep=a,,b", "--without=a,"})
    CHECK(refusal({"--recipe=r.json", wrong, "p.py", "in", "out"}).find("expected names of columns, each once") !=
          std::string::npos);
  CHECK(refusal({"--filter", "p.py", "in", "out"}).find("--filter is about the rows that a recipe makes") == 0);
  CHECK(refusal({"--recipe"}).find("--recipe needs a recipe.json") == 0);
}

TEST_CASE("predict says which word is missing, and which flag has no place") {
  CHECK(refusal({}).find("SCRIPT is missing") == 0);
  CHECK(refusal({"--nproc=2", "p.py"}).find("INPUT is missing") == 0);
  CHECK(refusal({"p.py", "in"}).find("OUTPUT is missing") == 0);
  CHECK(refusal({"-m", "p", "in", "out"}).find("-m has no place here") == 0);
  CHECK(refusal({"--no-python", "p.py", "in", "out"}).find("--no-python has no place here") == 0);
  CHECK(refusal({"--no-python", "./prog", "in", "out"}).empty());
  CHECK(refusal({"--ship", "./prog", "in", "out"}).find("--ship has no place here") == 0);
  CHECK(refusal({"--nproc", "p.py", "--no-such-flag", "in"}).find("unknown flag") == 0);
}

TEST_CASE("predict names the variable that asks for what it cannot do, and no flag that nobody typed") {
  cli::Host host = predict_host();
  host.env["DTRAIN_NO_PYTHON"] = "1";
  CHECK(refusal({"p.py", "in", "out"}, host).find("DTRAIN_NO_PYTHON has no place here") == 0);
  CHECK(refusal({"./prog", "in", "out"}, host).empty());
  host.env["DTRAIN_NO_PYTHON"] = "0";
  CHECK(refusal({"p.py", "in", "out"}, host).empty());
}
