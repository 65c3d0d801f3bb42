// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/cache/lease_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "data/cache/cache_error.h"
#include "data/os/host_name.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& path) {
  std::string text = read_small_file(path).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string pid_space_here() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

struct ProcessFacts {
  bool has_ended = false;  // and waits to be noticed
  std::string began;       // in the kernel's ticks: a pid that is used again has another
};

// Nothing: it cannot be seen, because there is none or because /proc shows only a user's own.
std::optional<ProcessFacts> process_facts(int pid) {
  std::string text;
  try {
    text = read_small_file(fmt::format("/proc/{}/stat", pid)).value_or("");
  } catch (const CacheError&) {
    return std::nullopt;
  }
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  ProcessFacts facts;
  std::size_t at = name_end + 2;
  facts.has_ended = text[at] == 'Z' || text[at] == 'X';
  constexpr int kFieldsToStart = 19;  // from field 3 to field 22
  for (int i = 0; i < kFieldsToStart && at != std::string::npos; ++i) at = text.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  facts.began = text.substr(at + 1, text.find(' ', at + 1) - at - 1);
  return facts;
}

std::string fresh_job() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) throw_system("getrandom", errno);
  return fmt::format("{:016x}", bits);
}

std::string own_user() {
  const passwd* found = ::getpwuid(::getuid());
  return found != nullptr ? found->pw_name : fmt::format("user {}", ::getuid());
}

}  // namespace

Lease own_lease() {
  return {fresh_job(),
          own_user(),
          host_name("a host without a name"),
          line_of("/proc/sys/kernel/random/boot_id"),
          pid_space_here(),
          ::getpid(),
          process_facts(::getpid()).value_or(ProcessFacts{}).began};
}

std::optional<Lease> read_lease(const fs::path& file) {
  const auto text = read_small_file(file);
  if (!text) return std::nullopt;
  if (auto lease = parse_lease(*text)) return lease;
  Lease unknown;
  unknown.owner = *text;
  unknown.user = "somebody";
  unknown.host = "an unknown host";
  return unknown;
}

bool is_dead_here(const Lease& lease) {
  if (lease.boot.empty() || lease.host != host_name("a host without a name")) return false;
  // The same name with another boot may be another machine: two containers have one name too. Time will tell.
  if (lease.boot != line_of("/proc/sys/kernel/random/boot_id") || lease.pid_space != pid_space_here()) return false;
  if (::kill(lease.pid, 0) != 0 && errno == ESRCH) return true;
  const auto facts = process_facts(lease.pid);
  return facts && (facts->has_ended || facts->began != lease.pid_began);
}

std::unique_ptr<HeldLease> HeldLease::take(const fs::path& file, const std::optional<Lease>& replaced) {
  if (const auto there = read_lease(file)) {
    if (!replaced || there->owner != replaced->owner || there->beat != replaced->beat) return nullptr;
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) throw_system(file, errno);
  }
  Lease lease = own_lease();
  const fs::path draft = file.string() + "." + lease.owner;  // a lease is whole from its first moment
  write_new_file(draft, lease_text(lease));
  const int failed = ::link(draft.c_str(), file.c_str()) == 0 ? 0 : errno;
  OwnedFd open(::open(draft.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  ::unlink(draft.c_str());
  if (failed == EEXIST) return nullptr;
  if (failed != 0 || !open) throw_system(file, failed != 0 ? failed : ENOENT);
  return std::unique_ptr<HeldLease>(new HeldLease(file, std::move(lease), std::move(open)));
}

HeldLease::~HeldLease() {
  constexpr int kTries = 25, kPauseMs = 20;
  try {
    for (int i = 0; i < kTries && !given_back_; ++i) {
      if (const OwnedFd lock = try_lock(path_.parent_path() / ".lock"))
        give_back();
      else
        ::poll(nullptr, 0, kPauseMs);
    }
  } catch (const CacheError&) {  // it is read and removed by others when it is stale
    return;
  }
}

void HeldLease::give_back() {
  if (is_ours()) ::unlink(path_.c_str());
  given_back_ = true;
}

bool HeldLease::is_ours() const {
  const auto there = read_lease(path_);
  return there && there->owner == lease_.owner;
}

void HeldLease::beat() {
  ++lease_.beat;
  write_over(file_.get(), lease_text(lease_), path_);
}

}  // namespace dtrain::data
