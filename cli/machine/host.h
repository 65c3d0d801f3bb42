#pragma once
// The facts about this machine that resolve() may use. Tests fill the struct by hand; this_host() is the only place of
// cli/ that reads them from the system.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/gpus/gpus.h"
#include "cli/machine/file_facts.h"
#include "cli/machine/numa.h"
#include "cli/machine/own_address.h"
#include "launcher/engine_wire/agent_wire.h"
#include "launcher/engines/mpi_plan.h"
#include "launcher/process/attached_terminal.h"
#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/credentials/site_certificates.h"
#include "rendezvous/pmi/mpi_meeting.h"

namespace dtrain::cli {

struct Host {
  std::map<std::string, std::string> env;  // without DTRAIN_TOKEN and what else is secret
  // What DTRAIN_TOKEN said, if it was set.
  std::optional<Result<JobSecret>> token;
  // What the object store of the data asks for, as JSON: a secret. Of the config, or of DTRAIN_STORE_CREDENTIALS where
  // that is no path: so it goes to other nodes. Workers find a file (cli/data/credentials_file.h).
  std::string store_credentials{};
  std::function<Result<JobSecret>(const std::string& path)> read_token = JobSecret::read;
  std::function<Result<JobSecret>()> new_token = JobSecret::generate;
  std::function<Result<SiteCertificates>(const SiteCertificates::Files& files)> read_certificates =
      SiteCertificates::load;
  // Whether munged answers here (munge_secret.h), so that a token can go from node to node by MUNGE.
  std::function<Result<void>()> munge = [] { return Result<void>(Error{ErrorKind::system, "MUNGE: not here"}); };
  // An MPI launcher has started this process, and its word counts; and what the processes of the job have told each
  // other, if they have met (mpi_job.h).
  struct Mpi {
    launcher::MpiProcess process;
    std::optional<MpiMeeting> meeting;
  };
  std::optional<Mpi> mpi{};
  // What an engine has told this agent of its node (cli/run/agent.h).
  std::optional<launcher::AgentPlace> place{};
  int cpus = 1;                   // cores this process may run on (sched_getaffinity), >= 1
  std::uint16_t machine = 0;      // ELF e_machine of this machine's programs; 0: do not judge
  bool foreign_programs = false;  // the kernel knows further program formats (binfmt_misc)
  std::string fresh_id;           // a few random hexadecimal digits
  launcher::TerminalUse stdin_use = launcher::TerminalUse::none;
  // What driver_gpus() and listed_gpus() say. The first is slow: called only when GPUs are to be counted.
  std::function<GpuInventory()> gpus = [] { return GpuInventory{}; };
  std::function<GpuInventory()> listed_gpus = [] { return GpuInventory{}; };
  // For --numa-binding: the CPUs that this process may use, and the node of a PCI device (topology.h).
  std::function<Result<std::vector<CpuFacts>>()> topology = [] { return std::vector<CpuFacts>{}; };
  std::function<int(const std::string& bus_id)> numa_node_of_pci = [](const std::string&) { return 0; };
  Probe probe = [](const std::string&) { return FileFacts{}; };
  // The numeric address of this host that a name means, or why it has none (own_address.h).
  std::function<Result<std::string>(const std::string& name)> own_address = [](const std::string& name) {
    return Result<std::string>(name);
  };
  // This host's name with its domain, where /etc/hosts has it.
  std::function<std::string()> full_name = [] { return std::string("localhost"); };
  // What the network calls a node of SLURM's (slurm_address.h). May be slow.
  std::function<std::string(const std::string& node)> slurm_address = [](const std::string& node) { return node; };
  // What SLURM's `scontrol WORDS` prints. May be slow, but not slower than `patience`.
  std::function<Result<std::string>(const std::vector<std::string>& words, std::chrono::seconds patience)> scontrol =
      [](const std::vector<std::string>&, std::chrono::seconds) {
        return Result<std::string>(Error{ErrorKind::unavailable, "there is no scontrol in PATH"});
      };
  // By which others may reach this host.
  std::function<std::vector<InterfaceAddress>()> addresses = [] { return std::vector<InterfaceAddress>{}; };
  // Whether another name is this host's too, and what leads there.
  std::function<Result<MeetingAddress>(const std::string& name)> meeting_address = [](const std::string& name) {
    return Result<MeetingAddress>(judge_meeting_address({name}, {}));
  };
  // Where this process works, empty if that has been removed; and its program's file.
  std::function<std::string()> folder = [] { return std::string(); };
  std::function<std::string()> own_file = [] { return std::string(); };
  // What a text file has, at most 1 MiB, or why it cannot be read.
  std::function<Result<std::string>(const std::string& path)> read_text = [](const std::string&) {
    return Result<std::string>(Error{ErrorKind::usage, "it cannot be read"});
  };
  // Names in a folder, for suggestions; empty if it cannot be read.
  std::function<std::vector<std::string>(const std::string& folder)> list = [](const std::string&) {
    return std::vector<std::string>{};
  };

  // The variable's value; empty if unset.
  std::string variable(const std::string& name) const {
    auto it = env.find(name);
    return it == env.end() ? "" : it->second;
  }
  // PATH, or what a shell takes where it is unset.
  std::string search_path() const {
    auto it = env.find("PATH");
    return it == env.end() ? "/usr/bin:/bin" : it->second;
  }
};

inline std::string find_in_path(const std::string& name, const Host& host) {
  return find_in_path(name, host.search_path(), host.probe);
}

// The machine this process runs on. Call from the main thread before any other exists (counting GPUs forks). Takes
// DTRAIN_TOKEN and the text of credentials out of this process's environment, so that no child inherits them and /proc
// does not show them.
Host this_host();

inline constexpr const char* kStoreCredentials = "DTRAIN_STORE_CREDENTIALS";

// munged's socket as the user names it; empty: the one that libmunge knows.
inline std::string munge_socket(const Host& host) { return host.variable("DTRAIN_MUNGE_SOCKET"); }

}  // namespace dtrain::cli
