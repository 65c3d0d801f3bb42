#include "cli/engines/mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "launcher/engines/meeting_place.h"

namespace dtrain::cli {
namespace {

constexpr double kOfKillTime = 0.7;  // that workers have: the job has ended before the launcher kills, with its report
// Node 0's addresses as this node sees them.
Result<std::string> endpoint_of(const MpiMeeting& meeting, const Host& host, const std::string& port) {
  std::vector<std::string> own;
  for (const InterfaceAddress& each : host.addresses()) own.push_back(each.address);
  auto endpoint = meeting.seat.node_rank > 0 ? launcher::endpoint_seen_from(own, meeting.addresses, port)
                                             : launcher::endpoint_of_node_0(meeting.addresses, port);
  if (endpoint.empty())
    return usage_error(
        "the host of MPI's rank 0 has no address that this host could reach; say where the nodes meet with --nnodes, "
        "--node-rank and --rdzv-endpoint");
  return endpoint;
}

// Several processes of MPI on a host are as many workers.
Result<void> take_workers(const Host::Mpi& mpi, Options& options) {
  const int workers = mpi.meeting->seat.workers;
  if (workers == 1) return {};
  const std::string text = std::to_string(workers);
  if (options.given(FlagId::nproc) && options.text(FlagId::nproc) != text)
    return usage_error(fmt::format(
        "{} has started {} processes on this host, each for one worker, and --nproc is {}; start one for each host "
        "(mpirun -N 1, mpiexec -ppn 1), or leave --nproc out",
        mpi.process.launcher, workers, options.text(FlagId::nproc)));
  options.suggest(FlagId::nproc, text, mpi.process.origin);
  return {};
}

// Several nodes, as many as the user has typed.
Result<void> check_nodes(const Host::Mpi& mpi, const Options& options) {
  const std::string nodes = std::to_string(mpi.meeting->seat.nodes);
  const std::string& typed = options.text(FlagId::nnodes);
  if (options.given(FlagId::nnodes) && typed != nodes && typed != nodes + ":" + nodes)
    return usage_error(
        fmt::format("{} has started processes on {} hosts, and --nnodes is {}; leave --nnodes out, or say where the "
                    "nodes meet with "
                    "--rdzv-endpoint",
                    mpi.process.launcher, nodes, typed));
  const auto ha = options.on(FlagId::ha);
  if (!ha) return ha.error();
  if (*ha)
    return usage_error("--ha needs the names of three or five hosts under MPI too: --rdzv-endpoint HOST,HOST,HOST");
  return {};
}

}  // namespace

Result<std::optional<launcher::MpiProcess>> mpi_that_counts(const RawOptions& raw, const Host& host) {
  const Options options(raw, host);
  const auto speaks = may_speak("mpi", raw, host, options);
  if (!speaks) return speaks.error();
  if (!*speaks) return {std::nullopt};
  auto process = launcher::mpi_process(host.env);
  if (process && !*process && is_named("mpi", options))
    return usage_error(
        "--engine mpi: no MPI launcher has started this process; start dtrain by mpirun -N 1 or mpiexec -ppn 1");
  return process;
}

std::string command_digest(const std::vector<std::string>& words) {
  std::uint64_t hash = launcher::kHashOfNothing;
  for (const std::string& word : words) hash = launcher::hash_of(word + '\0', hash);
  return fmt::format("{:016x}", hash);
}

std::string named_credential(const Options& options, const Host& host) {
  if (options.given(FlagId::tls_ca)) return "certificates";
  if (options.given(FlagId::insecure)) return "--insecure";
  if (options.given(FlagId::token_file)) return "a token file";
  if (!host.token) return "";
  const auto print = host.token->ok() ? (*host.token)->fingerprint() : Result<std::string>(host.token->error());
  return print ? "DTRAIN_TOKEN with the fingerprint " + *print : "DTRAIN_TOKEN";
}

Result<void> take_from_mpi(const Host& host, Options& options) {
  if (!host.mpi || !host.mpi->meeting) return {};
  const MpiMeeting& meeting = *host.mpi->meeting;
  const std::string& origin = host.mpi->process.origin;
  if (auto done = check_nodes(*host.mpi, options); !done) return done;
  if (auto done = take_workers(*host.mpi, options); !done) return done;
  if (const double seconds = host.mpi->process.kill_after; seconds > 0)
    options.suggest(FlagId::shutdown_timeout, fmt::format("{:g}", seconds * kOfKillTime), origin);
  if (meeting.seat.nodes == 1) return {};
  const std::string port = port_or(options, std::to_string(launcher::port_of_job(meeting.job)));
  auto endpoint = endpoint_of(meeting, host, port);
  if (!endpoint) return endpoint.error();
  options.suggest(FlagId::nnodes, std::to_string(meeting.seat.nodes), origin);
  options.suggest(FlagId::node_rank, std::to_string(meeting.seat.node_rank), origin);
  options.suggest(FlagId::rdzv_endpoint, *endpoint, origin);
  options.suggest(FlagId::run_id, meeting.job, origin);
  return {};
}

bool mpi_has_said(const Host& host, const Options& options) {
  return host.mpi && host.mpi->meeting && options[FlagId::rdzv_endpoint].where == host.mpi->process.origin;
}

}  // namespace dtrain::cli
