#pragma once
// Everything that one worker is started with, made ready by the agent for the guard.
// Tested by test/process/launcher/rounds_test.py.
#include <string>
#include <vector>

#include "launcher/job/job_spec.h"
#include "launcher/job/prefix.h"
#include "launcher/job/worker_env.h"
#include "launcher/logs/log_tree.h"
#include "launcher/logs/round_files.h"
#include "launcher/output/output_router.h"
#include "launcher/process/stream_ends.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct PreparedWorker {
  UniqueFd exec_payload;  // argv and environment, see guard_protocol.h
  UniqueFd stdin_fd;
  WorkerFiles files;
};

// `input`: who reads standard input in this round. `parent_env`: the environment that dtrain itself was given, as
// "NAME=value". Errors: log files or descriptors.
Result<PreparedWorker> prepare_worker(const JobSpec& spec, const Assignment& assignment, int local_rank,
                                      const StdinMode& input, const std::vector<std::string>& parent_env,
                                      LogTree& logs);

// What the guard gets beside GuardOp::spawn.
std::vector<UniqueFd> descriptors_for_guard(PreparedWorker worker, StreamEnds ends);

// What becomes of its two streams. Takes the log files out of `files`; with the first worker of a round it opens what
// the round's workers share. Errors: the disk or the limit of open files.
struct WorkerStreams {
  StreamSpec out;
  StreamSpec err;
};
Result<WorkerStreams> worker_streams(const JobSpec& spec, int rank, int local_rank, const Prefix& prefix,
                                     WorkerFiles& files, RoundFiles& shared);

}  // namespace dtrain::launcher
