// Fuzzes SLURM's variables: whatever they hold, there is a place in a step, no step, or an error of one line. The first
// line is the list of hosts, the others the variables in turn.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/engines/hostlist.h"
#include "launcher/engines/slurm_plan.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Error& error) { require(!error.message.empty() && error.message.find('\n') == std::string::npos); }

// What the names spell, one by one, is a list of the same names.
void expand(const std::string& text) {
  auto hosts = expand_hostlist(text, 2000);
  if (!hosts) return check(hosts.error());
  require(!hosts->empty() && hosts->size() <= 2000);
  std::string plain;
  for (const std::string& host : *hosts) {
    require(!host.empty() && host.size() <= 255);
    plain += (plain.empty() ? "" : ",") + host;
  }
  auto again = expand_hostlist(plain, 2000);
  require(again.ok() && *again == *hosts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> names = {"SLURM_STEP_NODELIST",  "SLURM_JOB_ID", "SLURM_STEP_ID",
                                          "SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE",
                                          "SLURMD_NODENAME"};
  Variables env = {{"SLURM_JOB_ID", "1"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NUM_NODES", "2"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& name : names) {
    const auto end = text.find('\n');
    if (const std::string line = text.substr(0, end); !line.empty()) env[name] = line;
    if (end == std::string::npos) break;
    text.erase(0, end + 1);
  }
  expand(env["SLURM_STEP_NODELIST"]);
  auto step = slurm_step(env);
  if (!step) {
    check(step.error());
  } else if (*step) {
    require((*step)->node_rank >= 0 && (*step)->node_rank < (*step)->nodes && (*step)->port != 0);
    require((*step)->nodes == 1 || !(*step)->host.empty());
  }
  return 0;
}
