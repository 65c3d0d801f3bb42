#pragma once
// Everything that one worker is started with, made ready by the agent for the guard.
#include <string>
#include <vector>

#include "launcher/job_spec.h"
#include "launcher/log_tree.h"
#include "launcher/output_router.h"
#include "launcher/worker_env.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct PreparedWorker {
  UniqueFd exec_payload;  // argv and environment, see guard_protocol.h
  UniqueFd stdin_fd;
  WorkerFiles files;
};

// `parent_env`: the environment that dtrain itself was given, as "NAME=value". Errors: log files or descriptors.
Result<PreparedWorker> prepare_worker(const JobSpec& spec, const Assignment& assignment, int local_rank,
                                      const std::vector<std::string>& parent_env, const LogTree& logs);

// What becomes of one of its streams (out or err), with the prefix of its lines; takes the stream's log file out of
// `files`.
StreamSpec stream_spec(const JobSpec& spec, Streams which, int rank, int local_rank, const std::string& prefix,
                       WorkerFiles& files);

// The environment of this process as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace dtrain::launcher
