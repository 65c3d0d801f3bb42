// What `dtrain help exit-codes` and its like say; the man page prints the same.
// Tested by test/unit/cli/help/help_test.cc.
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

Topic exit_codes() {
  return {"exit-codes",
          "Exit codes",
          "`dtrain run` exits with the code of the first failure.",
          {{"0", "every worker ended with 0"},
           {"1, 3, ...", "the first failing worker's own exit code; the failure report names the rank"},
           {"128+n",
            "signal n ended the first failing worker: 139 by SIGSEGV, 137 by SIGKILL; or signal n stopped the job: 130 "
            "by Ctrl-C, 143 by SIGTERM"},
           {"2",
            "the command line or a variable makes no sense, or names a folder or file that cannot be used; nothing was "
            "started"},
           {"125", "dtrain itself failed: the system refused what it needs"},
           {"126", "the program exists but cannot be executed"},
           {"127", "the program was not found"}}};
}

Topic environment_topic() {
  return {"environment",
          "Environment",
          "Most flags can be set in the environment. A flag wins over DTRAIN_*, DTRAIN_* wins over torchrun's PET_*, "
          "and PET_* wins over the file of --config, and that over the default. An empty variable counts as unset. "
          "`dtrain help FLAG` names the variables of a flag.",
          {{"DTRAIN_<FLAG>", "the value of --flag, e.g. DTRAIN_MAX_RESTARTS=3; for a switch 1 (on) or 0 (off)"},
           {"PET_<NAME>", "the same with torchrun's name, e.g. PET_NPROC_PER_NODE=4"},
           {"PYTHON_EXEC",
            "the Python that runs .py programs and modules; else the one of VIRTUAL_ENV, else python3 "
            "or python in PATH"},
           {"CUDA_VISIBLE_DEVICES", "which GPUs --nproc gpu and --nproc auto count"},
           {"OMP_NUM_THREADS", "threads of each worker; dtrain sets it for several workers if it is unset"},
           {"TMPDIR", "where log folders go without --log-dir"},
           {"NO_COLOR", "no colours if it is set and not empty, or if TERM is dumb"},
           {"COLUMNS", "width of help texts, 40 to 80; else the terminal's width"}}};
}

Topic workers_topic() {
  return {"workers",
          "What a worker finds",
          "Each worker has dtrain's own environment, and these variables as torchrun sets them.",
          {{"RANK", "number of the worker in the job, from 0; WORLD_SIZE: how many there are"},
           {"LOCAL_RANK", "number of the worker on its node; LOCAL_WORLD_SIZE: how many there are"},
           {"GROUP_RANK", "number of the node; GROUP_WORLD_SIZE: how many there are"},
           {"ROLE_NAME", "--role; ROLE_RANK and ROLE_WORLD_SIZE count the workers of this role"},
           {"MASTER_ADDR", "with MASTER_PORT: the address of the store through which workers meet"},
           {"TORCHELASTIC_RUN_ID", "--rdzv-id, or a fresh name; DTRAIN_JOB_ID is the same"},
           {"TORCHELASTIC_RESTART_COUNT", "restarts so far; TORCHELASTIC_MAX_RESTARTS: --max-restarts"},
           {"TORCHELASTIC_ERROR_FILE", "where torch's @record may write why it failed"},
           {"OMP_NUM_THREADS", "if it was unset: cores divided by workers, at least 1"}}};
}

}  // namespace

std::vector<Topic> topics() { return {exit_codes(), environment_topic(), workers_topic()}; }

}  // namespace dtrain::cli
