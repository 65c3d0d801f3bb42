#pragma once
// Flags: how many workers, and what they are.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kWorkersFlags[] = {
    {.id = FlagId::nproc,
     .group = Group::workers,
     .name = "nproc",
     .alias = "nproc-per-node",
     .value = "N",
     .choices = "auto,cpu,gpu",
     .fallback = "1",
     .pet = "NPROC_PER_NODE",
     .help = "workers on this node: a number, auto, cpu or gpu",
     .details = "A number from 1 to 16384. `cpu`: one worker for each core that dtrain may use. `gpu`: one worker for "
                "each visible GPU, by the rules of CUDA_VISIBLE_DEVICES (AMD: HIP_VISIBLE_DEVICES, "
                "ROCR_VISIBLE_DEVICES). It is an error if there is none. `auto`: GPUs if there are any, else cores."},
    {.id = FlagId::num_proc,
     .group = Group::workers,
     .name = "num-proc",
     .value = "N",
     .choices = "auto",
     .help = "workers of the whole job, or auto; also -np",
     .details =
         "With a list of hosts (-H HOST:SLOTS,...), as in horovodrun, the first hosts get as many as they have slots. "
         "Else, and where --nnodes is given and wants more hosts than that, each node gets the same part. Ray without "
         "--nnodes gives as many nodes as they need. `auto`: a worker for each GPU, or one on a node without GPUs; Ray "
         "and Spark without --nnodes give all their nodes. Workers find HOROVOD_RANK and the like besides torch's "
         "variables (with --replica-groups: of their group). With --nproc it has to agree; what is typed goes before a "
         "variable."},
    {.id = FlagId::max_restarts,
     .group = Group::workers,
     .name = "max-restarts",
     .value = "N",
     .fallback = "0",
     .pet = "MAX_RESTARTS",
     .help = "restart all workers up to N times after a failure",
     .details = "dtrain stops all workers of the job and starts them again as a new round. It does not try again if a "
                "program could not be started at all."},
    {.id = FlagId::survivors,
     .group = Group::workers,
     .name = "survivors",
     .value = "N",
     .fallback = "0",
     .help = "a failure ends nothing while N workers are left here",
     .details = "For programs that call dtrain's reform(): the workers that are left meet again without the one that "
                "failed. While restarts are left (--max-restarts), a new process takes its place and joins them. N "
                "counts workers of one node. 0: a failure stops all workers."},
    {.id = FlagId::replica_groups,
     .group = Group::workers,
     .name = "replica-groups",
     .value = "N",
     .fallback = "0",
     .help = "divide the workers into N equal groups, each its own job",
     .details = "The workers of this node (--nproc) become N groups. Each has its own ranks, store and restarts "
                "(--max-restarts): a failure ends its group alone, and the others go on. Workers find REPLICA_GROUP_ID "
                "and NUM_REPLICA_GROUPS. docs/training/replica-groups.md has more. 0: one job of all workers."},
    {.id = FlagId::role,
     .group = Group::workers,
     .name = "role",
     .value = "NAME",
     .fallback = "default",
     .pet = "ROLE",
     .help = "name of the workers' role (ROLE_NAME)"},
    {.id = FlagId::run_id,
     .group = Group::workers,
     .name = "rdzv-id",
     .alias = "run-id",
     .value = "NAME",
     .pet = "RDZV_ID",
     .help = "name of the job (TORCHELASTIC_RUN_ID)",
     .details = "It also names the job's log folder, with _ for each slash. Without this flag, each job gets a name of "
                "its own."},
    {.id = FlagId::standalone,
     .group = Group::workers,
     .name = "standalone",
     .pet = "STANDALONE",
     .help = "one node, nothing shared with other jobs",
     .details =
         "A job on one node shares nothing anyway. dtrain accepts the flag so that torchrun's command lines work."},
    {.id = FlagId::use_gpu,
     .group = Group::workers,
     .name = "use-gpu",
     .value = "WHEN",
     .choices = "auto,yes,no",
     .fallback = "auto",
     .help = "whether each worker needs a GPU: auto, yes or no",
     .details =
         "yes: it is an error if a node has fewer usable GPUs than workers. no: workers see no GPU, since "
         "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES are empty for them. On Ray and Spark, "
         "it also decides whether a worker takes a GPU, unless --resources-per-worker does."},
    {.id = FlagId::virtual_local_rank,
     .group = Group::workers,
     .name = "virtual-local-rank",
     .pet = "VIRTUAL_LOCAL_RANK",
     .help = "LOCAL_RANK=0 and one GPU of its own for every worker",
     .details = "CUDA_VISIBLE_DEVICES (and HIP_VISIBLE_DEVICES, if it is set) of a worker has one entry: the worker's "
                "own from the list that dtrain has, or its local rank if there is no list. A list with too few entries "
                "is an error."},
    {.id = FlagId::numa_binding,
     .group = Group::workers,
     .name = "numa-binding",
     .value = "MODE",
     .choices = "node,socket,exclusive,core-complex",
     .help = "bind workers to CPUs: node, socket, exclusive, core-complex",
     .details = "dtrain binds each worker to CPUs next to its GPU. `node`: all CPUs of the GPU's NUMA node. `socket`: "
                "all CPUs of its socket. `exclusive`: the worker's own share of the node's physical cores. "
                "`core-complex`: the CPUs that share one last-level cache. Without GPUs the workers take the NUMA "
                "nodes in turn; called as torchrun, that is an error. Needs the hwloc library, but not numactl."},
    {.id = FlagId::strategy,
     .group = Group::workers,
     .name = "strategy",
     .value = "NAME",
     .choices = "ddp,zero1,zero2,fsdp",
     .help = "how workers share a model: a word, JSON or a file",
     .details = "For C++ programs that train with dtrain::Parallel: they need no change. JSON says more, such as "
                "'{\"type\": \"fsdp\", \"prefetch\": 2}'; docs/training/sharding.md lists the keys. A value with a dot "
                "or a slash is the name of a JSON file: dtrain's own keys, or a config of DeepSpeed, Accelerate or "
                "Ludwig (docs/training/config.md). Programs with dtrain::Ddp or dtrain::hvd can only use ddp, and end "
                "with an error for another strategy. Programs in Python do not read it, and a note says so."},
    {.id = FlagId::loader,
     .group = Group::workers,
     .name = "loader",
     .value = "JSON",
     .help = "how the data loader reads: Ludwig's backend.loader",
     .details =
         "A JSON object: `window_size_bytes` is a number of bytes, null or \"auto\", and `fully_executed` true or "
         "false. Workers find the keys that are given in DTRAIN_LOADER; what they do with that is the "
         "program's."},
    {.id = FlagId::keep_state,
     .group = Group::workers,
     .name = "keep-state",
     .help = "keep each worker's training state in memory over restarts",
     .details =
         "For C++ programs that train with dtrain::KeptState: after a restart they go on from the last step, and "
         "read no disk. dtrain has the memory while it runs, and nothing is left of it afterwards. The memory is "
         "twice what a worker keeps; docs/training/checkpoints.md says how much that is."},
    {.id = FlagId::copy_state,
     .group = Group::workers,
     .name = "copy-state",
     .help = "keep the state, and a copy of each on another node",
     .details = "So that the state outlives the loss of a node; implies --keep-state. Each step that is kept is also "
                "sent to a worker on another node, before the training goes on. It takes the memory of --keep-state a "
                "second time."},
    {.id = FlagId::state_dir,
     .group = Group::workers,
     .name = "state-dir",
     .value = "DIR",
     .help = "keep the state in files there for the job's next run",
     .details = "Implies --keep-state. A job that is stopped, as by SLURM for another job, leaves the state of its "
                "workers in files of DIR, and goes on from there when it runs again. A job that ends well removes the "
                "files. All nodes need DIR on one file system. A job is known by SLURM's number, or else by --rdzv-id. "
                "At SLURM's time limit, use --requeue SECONDS: the workers get SIGTERM that long before the limit, and "
                "need not save."},
};

}  // namespace dtrain::cli
