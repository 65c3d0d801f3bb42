#include "cli/predict/predict.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;
using dtrain::cli::predict_as_run;
using Words = std::vector<std::string>;

TEST_CASE("predict is a run of a module with the same flags") {
  CHECK(*predict_as_run({"--nproc", "3", "p.py", "in", "out", "--size=2"}) ==
        Words{"--module", "--nproc", "3", "dtrain_data", "predict", "p.py", "in", "out", "--size=2"});
  CHECK(*predict_as_run({"-t3", "--", "p.py", "in", "out"}) ==
        Words{"--module", "-t3", "--", "dtrain_data", "predict", "p.py", "in", "out"});
}

namespace {

std::string refusal(const Words& words) {
  const auto as_run = predict_as_run(words);
  return as_run ? "" : as_run.error().message;
}

}  // namespace

TEST_CASE("predict says which word is missing, and which flag has no place") {
  CHECK(refusal({}).find("SCRIPT is missing") == 0);
  CHECK(refusal({"--nproc=2", "p.py"}).find("INPUT is missing") == 0);
  CHECK(refusal({"p.py", "in"}).find("OUTPUT is missing") == 0);
  CHECK(refusal({"-m", "p", "in", "out"}).find("-m has no place here") == 0);
  CHECK(refusal({"--nproc", "p.py", "--no-such-flag", "in"}).find("unknown flag") == 0);
}
