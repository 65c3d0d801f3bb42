// Reads the facts of the machine.
#include "cli/machine/host.h"

#include <dirent.h>
#include <elf.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cli/base/own_file.h"
#include "cli/base/usage_error.h"
#include "cli/children/ask_program.h"
#include "cli/machine/own_address.h"
#include "cli/machine/slurm_address.h"
#include "cli/machine/topology.h"
#include "launcher/base/cpu_set.h"
#include "launcher/base/host_name.h"
#include "rendezvous/munge/munge_secret.h"

namespace dtrain::cli {
namespace {

std::optional<Result<JobSecret>> take_token() {
  static std::optional<Result<JobSecret>> taken;  // the variable can be read only once
  if (char* text = std::getenv("DTRAIN_TOKEN"); text != nullptr) {
    if (*text != 0) taken = JobSecret::parse(text);
    wipe(text, std::strlen(text));
    unsetenv("DTRAIN_TOKEN");
  }
  return taken;
}

// A path stays where it is.
std::string take_store_credentials() {
  static std::string taken;  // as above
  if (char* text = std::getenv(kStoreCredentials); text != nullptr && *text == '{') {
    taken = text;
    wipe(text, std::strlen(text));
    unsetenv(kStoreCredentials);
  }
  return taken;
}

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string text = *entry;
    std::size_t equals = text.find('=');
    if (equals != std::string::npos) env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return 0;
#endif
}

std::vector<std::string> list(const std::string& folder) {
  constexpr std::size_t kMost = 2000;  // only for suggestions: not worth reading a folder of a million files
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    if (names.size() == kMost) break;
    names.emplace_back(entry->d_name);
  }
  closedir(dir);
  return names;
}

bool knows_foreign_programs() {
  for (const std::string& name : list("/proc/sys/fs/binfmt_misc"))
    if (name != "." && name != ".." && name != "register" && name != "status") return true;
  return false;
}

std::string random_digits() {
  unsigned value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) value = static_cast<unsigned>(getpid());
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08x", value);
  return digits;
}

// As the shell has it: PWD may go through a link that other hosts have too.
std::string working_folder() {
  std::error_code none;
  const auto folder = std::filesystem::current_path(none);
  const char* shown = std::getenv("PWD");
  if (shown != nullptr && shown[0] == '/' && std::filesystem::equivalent(shown, folder, none)) return shown;
  return folder.string();
}

}  // namespace

Host this_host() {
  Host host;
  host.token = take_token();
  host.store_credentials = take_store_credentials();
  host.env = environment();
  host.munge = [socket = munge_socket(host)] {
    auto munge = Munge::load(socket);
    return munge ? munge->reach() : Result<void>(munge.error());
  };
  host.cpus = std::max(1, static_cast<int>(launcher::allowed_cpus().size()));
  host.machine = own_machine();
  host.foreign_programs = knows_foreign_programs();
  host.fresh_id = random_digits();
  host.folder = working_folder;
  host.own_file = [] {
    const auto file = own_file();
    return file ? file->string() : std::string();
  };
  host.stdin_use = launcher::standard_input_use(::getpgrp());
  host.gpus = [] { return driver_gpus(); };
  host.listed_gpus = listed_gpus;
  host.topology = read_usable_topology;
  host.numa_node_of_pci = numa_node_of_pci;
  host.own_address = own_address;
  host.full_name = launcher::qualified_hostname;
  host.slurm_address = [path = host.search_path()](const std::string& node) {
    return slurm_address(node, find_in_path("scontrol", path, file_facts));
  };
  host.scontrol = [path = host.search_path()](const std::vector<std::string>& words,
                                              std::chrono::seconds patience) -> Result<std::string> {
    std::vector<std::string> command{find_in_path("scontrol", path, file_facts)};
    if (command[0].empty()) return Error{ErrorKind::unavailable, "there is no scontrol in PATH"};
    command.insert(command.end(), words.begin(), words.end());
    return ask_program(command, patience);
  };
  host.meeting_address = meeting_address;
  host.addresses = reachable_addresses;
  host.probe = file_facts;
  host.read_text = text_file;
  host.list = list;
  return host;
}

}  // namespace dtrain::cli
