#pragma once
// An MPI launcher as a source of values: `mpirun dtrain run` on several hosts is one job, and where it has started
// several processes on a host, each of them stands for a worker. Whatever the user says about where the nodes meet
// comes first. Pure.
#include <optional>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The process, if its launcher's word counts: then all processes of the job must meet (mpi_job.h), and Host::mpi has
// what they have said. Not as torchrun, which knows nothing of MPI.
Result<std::optional<launcher::MpiProcess>> mpi_that_counts(const RawOptions& raw, const Host& host);

// What processes compare when they meet: of all that was typed, and of the credential that the user has named.
std::string command_digest(const std::vector<std::string>& words);
std::string named_credential(const Options& options, const Host& host);

// Fill in --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id, --nproc and --shutdown-timeout from host.mpi, if the
// processes have met. This one is an agent.
Result<void> take_from_mpi(const Host& host, Options& options);

// Whether the nodes meet where MPI's processes have said.
bool mpi_has_said(const Host& host, const Options& options);

}  // namespace dtrain::cli
