#include "cli/machine/mpi_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/children/ask_child.h"
#include "cli/machine/own_address.h"
#include "launcher/base/cpu_set.h"
#include "launcher/base/inherited.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain::cli {
namespace {

using Json = nlohmann::json;
constexpr std::chrono::seconds kPatience{120};
constexpr int kMostAbove = 64;  // processes

Result<MpiMeeting> met(const launcher::MpiProcess& process, const std::map<std::string, std::string>& env,
                       MpiSelf self) {
  auto exchange = process.wire == launcher::MpiProcess::Wire::pmix ? exchange_by_pmix() : exchange_by_pmi1(env);
  if (!exchange) return exchange.error();
  for (const InterfaceAddress& each : reachable_addresses()) self.addresses.push_back(each.address);
  self.cpus = launcher::allowed_cpus();
  return meet(**exchange, self);
}

// Name and parent of a process; an empty name: it is not seen.
std::pair<std::string, pid_t> look_above(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  pid_t parent = 0;
  rest >> state >> parent;
  return {text.substr(open + 1, close - open - 1), parent};
}

std::string packed_meeting(const Result<MpiMeeting>& meeting) {
  if (!meeting)
    return Json{{"error", meeting.error().message}, {"kind", static_cast<int>(meeting.error().kind)}}.dump(
        -1, ' ', false, Json::error_handler_t::replace);
  const MpiSeat& seat = meeting->seat;
  return Json{{"job", meeting->job},         {"nodes", seat.nodes},
              {"node_rank", seat.node_rank}, {"workers", seat.workers},
              {"cpus", seat.cpus},           {"addresses", meeting->addresses},
              {"hosts", meeting->hosts},     {"secret", meeting->secret ? meeting->secret->text() : ""},
              {"bound", meeting->bound}}
      .dump();
}

Result<MpiMeeting> unpacked_meeting(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.contains("error")) return Error{static_cast<ErrorKind>(json["kind"].get<int>()), json["error"]};
  MpiMeeting meeting{json["job"],
                     {json["nodes"], json["node_rank"], json["workers"], json["cpus"].get<std::vector<int>>(), {}},
                     json["addresses"].get<std::vector<std::string>>(),
                     json["hosts"].get<std::vector<std::string>>(),
                     std::nullopt,
                     json["bound"]};
  auto secret = json["secret"].get<std::string>();
  if (!secret.empty()) {
    auto parsed = JobSecret::parse(secret);
    wipe(secret.data(), secret.size());
    if (!parsed) return parsed.error();
    meeting.secret = std::move(*parsed);
  }
  return meeting;
}

}  // namespace

MpiAncestry mpi_ancestry() {
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAbove && pid > 1; ++i) {
    const auto [name, parent] = look_above(pid);
    if (name.empty()) break;
    switch (launcher::above(name)) {
      case launcher::Above::launcher:
        return {pid, {}};
      case launcher::Above::program:
        return {-1, name};
      case launcher::Above::wrapper:
        pid = parent;
    }
  }
  return {};
}

// In a child: PMIx's library has threads, and its calls have no deadline.
Result<MpiMeeting> meet_by_mpi(const launcher::MpiProcess& process, const std::map<std::string, std::string>& env,
                               MpiSelf self) {
  using End = ChildAnswer::End;
  constexpr const char* kAdvice =
      "a process of MPI can do this once: not after another `dtrain run` or a program of MPI in the same script. "
      "--standalone makes a job of its own of each process";
  ChildAnswer answer = ask_child([&] { return packed_meeting(met(process, env, std::move(self))); }, kPatience);
  if (answer.end == End::late)
    return Error{
        ErrorKind::system,
        fmt::format("the other processes that {} has started did not come within {} s: are all of them the same "
                    "`dtrain run`? {}",
                    process.launcher, kPatience.count(), kAdvice)};
  if (answer.end != End::answered)
    return Error{ErrorKind::system,
                 fmt::format("a process that talks to {} {}", process.launcher,
                             answer.end == End::failed ? "failed" : "cannot be started (ulimit -u, ulimit -n)")};
  auto meeting = unpacked_meeting(answer.text);
  wipe(answer.text.data(), answer.text.size());
  if (meeting || meeting.error().kind != ErrorKind::system) return meeting;
  return Error{meeting.error().kind, fmt::format("{}; {}", meeting.error().message, kAdvice)};
}

void leave_mpi() {
  if (const char* text = std::getenv("PMI_FD"); text != nullptr) {
    const std::string_view digits = text;
    int fd = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), fd);
    if (fd > STDERR_FILENO) ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // the launcher takes its end for this process's
  }
  for (const std::string& entry : launcher::own_environment())
    if (const std::string name = entry.substr(0, entry.find('=')); launcher::is_mpi_variable(name))
      ::unsetenv(name.c_str());
}

void take_cpus_of_host(const launcher::MpiProcess& process, pid_t launcher, const MpiSeat& seat) {
  if (process.bound && launcher > 0) return launcher::allow_cpus(launcher::allowed_cpus(launcher));
  if (seat.workers > 1) launcher::allow_cpus(seat.cpus);
}

UniqueFd watch_launcher(pid_t launcher) {
  return UniqueFd(launcher > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, launcher, 0)) : -1);
}

}  // namespace dtrain::cli
