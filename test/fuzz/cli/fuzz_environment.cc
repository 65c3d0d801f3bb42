// Fuzzes the values that flags take, through the environment: whatever DTRAIN_*, PET_* and the other variables hold,
// resolve() ends with a plan or with one line that names the variable.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/dry_run.h"
#include "cli/resolve.h"
#include "cli/text.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::string> variables() {
  std::vector<std::string> names = {"OMP_NUM_THREADS",
                                    "CUDA_VISIBLE_DEVICES",
                                    "HIP_VISIBLE_DEVICES",
                                    "PYTHON_EXEC",
                                    "VIRTUAL_ENV",
                                    "PATH",
                                    "NO_COLOR",
                                    "TERM",
                                    "TORCHELASTIC_ENABLE_FILE_TIMER"};
  for (const Flag& row : flags())
    for (const std::string& name : {dtrain_variable(row), pet_variable(row), std::string(row.also)})
      if (!name.empty()) names.push_back(name);
  return names;
}

Host host_with(const std::vector<std::string>& lines) {
  static const std::vector<std::string> names = variables();
  Host host;
  host.env["PATH"] = "/bin";
  for (const std::string& line : lines)
    if (!line.empty()) host.env[names[static_cast<unsigned char>(line[0]) % names.size()]] = line.substr(1);
  host.cpus = 8;
  host.probe = [](const std::string& path) {
    FileFacts facts{FileFacts::Kind::file, true, true, true, true, "#!/bin/sh\n"};
    if (path.ends_with('/') || path == ".") facts.kind = FileFacts::Kind::folder;
    return facts;
  };
  return host;
}

}  // namespace

// Byte 0: the name that dtrain is called by. Each line of the rest: one byte that chooses a variable, then its value.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto raw = parse(std::vector<std::string>{"/bin/true"}, static_cast<CalledAs>(data[0] % 3));
  require(raw.ok());
  auto plan = resolve(*raw, host_with(split(text, '\n')));
  if (!plan) {
    require(!plan.error().message.empty() && plan.error().message.find('\n') == std::string::npos);
    return 0;
  }
  require(plan->spec.nproc_per_node >= 1);
  for (const std::string& note : plan->notes) require(note.find('\n') == std::string::npos);
  if (plan->spec.nproc_per_node <= 16) require(!describe(*plan).empty());
  return 0;
}
