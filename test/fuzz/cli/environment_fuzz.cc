// Fuzzes the values that flags take, through the environment: whatever DTRAIN_*, PET_* and the other variables hold,
// resolve() ends with a plan or with one line that names the variable.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/text.h"
#include "cli/resolve/resolve.h"
#include "cli/run/dry_run.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

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

Host host_with(const std::vector<std::string>& settings) {
  static const std::vector<std::string> names = variables();
  Host host;
  host.env["PATH"] = "/bin";
  for (const std::string& setting : settings)
    if (!setting.empty()) host.env[names[static_cast<unsigned char>(setting[0]) % names.size()]] = setting.substr(1);
  host.cpus = 8;
  host.probe = [](const std::string& path) {
    FileFacts facts{FileFacts::Kind::file, true, true, true, true, "#!/bin/sh\n"};
    if (path.ends_with('/') || path == ".") facts.kind = FileFacts::Kind::folder;
    return facts;
  };
  return host;
}

}  // namespace

// Byte 0: the name that dtrain is called by. The rest, each up to a zero byte: a byte that chooses a variable, then its
// value.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto raw = parse(std::vector<std::string>{"/bin/true"}, static_cast<CalledAs>(data[0] % 3));
  DT_CHECK(raw.ok(), "a program alone is enough");
  const Host host = host_with(split(text, '\0'));
  auto plan = resolve(*raw, host);
  if (!plan) {
    check_one_line(plan.error().message);
    return 0;
  }
  DT_CHECK(plan->spec.nproc_per_node >= 1, "a job has a worker");
  for (const std::string& note : plan->notes) check_one_line(note);
  if (plan->spec.nproc_per_node <= 16) DT_CHECK(!describe(*plan, host.env).empty(), "--dry-run shows it");
  return 0;
}
