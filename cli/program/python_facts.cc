// Asks Python about itself and about torch.
#include "cli/program/python_facts.h"

#include <chrono>

#include "cli/base/text.h"
#include "cli/children/ask_program.h"
#include "cli/program/program.h"

namespace dtrain::cli {
namespace {

// One answer a line. Without "", the current folder, which `-c` puts first unless PYTHONSAFEPATH is set: what lies
// there does not run. torch is found, not imported: that would take seconds. Its version.py only assigns names.
constexpr const char* kQuestion = R"(
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import importlib.util, os
print(sys.executable)
print(sys.version.split()[0])
spec = importlib.util.find_spec("torch")
origin = spec.origin if spec and spec.origin else ""
print(origin)
names = {}
if origin:
    try:
        with open(os.path.join(os.path.dirname(origin), "version.py")) as file:
            exec(file.read(), names)
    except Exception:
        pass
for name in ("__version__", "cuda", "hip"):
    print(names.get(name) or "")
)";

}  // namespace

PythonFacts python_answer(const std::string& command, const std::string& answer) {
  std::vector<std::string> lines = split(answer, '\n');
  PythonFacts facts;
  facts.command = command;
  if (lines.size() < 6) {
    facts.problem = command + ": does not answer as Python does";
    return facts;
  }
  facts.executable = lines[0];
  facts.version = lines[1];
  facts.torch_file = lines[2];
  facts.torch = lines[3];
  facts.cuda = lines[4];
  facts.hip = lines[5];
  return facts;
}

PythonFacts python_facts(const Host& host) {
  auto command = find_python(host);
  PythonFacts facts;
  if (!command) {
    facts.problem = command.error().message;
    return facts;
  }
  auto answer = ask_program({*command, "-c", kQuestion}, std::chrono::seconds(10));
  if (answer) return python_answer(*command, *answer);
  facts.command = *command;
  facts.problem = answer.error().message;
  return facts;
}

}  // namespace dtrain::cli
