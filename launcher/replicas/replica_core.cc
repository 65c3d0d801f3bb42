#include "launcher/replicas/replica_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/job/exit_codes.h"
#include "launcher/job/exit_status.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {

std::optional<std::string> ReplicaCore::ended(int at, int code) {
  ends_[static_cast<std::size_t>(at)] = code;
  if (code == 0) return std::nullopt;
  if (first_ == 0) first_ = code;
  return failed(at, fmt::format("has failed, exit code {}", code));
}

std::optional<std::string> ReplicaCore::killed(int at, int signal) {
  ends_[static_cast<std::size_t>(at)] = kExitOwnFailure;
  if (first_ == 0) first_ = kExitOwnFailure;
  return failed(at, fmt::format("has ended: its dtrain was killed by {}", signal_name(signal)));
}

// The end of the last one is in the summary.
std::optional<std::string> ReplicaCore::failed(int at, const std::string& how) {
  if (signal_ != 0 || over()) return std::nullopt;
  const int others = left();
  return fmt::format("group {} {}; {} on", first_group_ + at, how,
                     counted(others, "other group") + (others == 1 ? " goes" : " go"));
}

int ReplicaCore::left() const { return static_cast<int>(std::count(ends_.begin(), ends_.end(), std::optional<int>())); }

int ReplicaCore::exit_code() const {
  const std::optional<int> code = 128 + signal_;
  const bool by_stop = signal_ != 0 && std::count(ends_.begin(), ends_.end(), code) != 0;
  return by_stop ? *code : first_;
}

bool ReplicaCore::is_interrupted() const { return signal_ == SIGINT && exit_code() == 128 + SIGINT; }

std::optional<std::string> ReplicaCore::summary() const {
  if (first_ == 0 || signal_ != 0 || ends_.size() == 1) return std::nullopt;
  std::string groups;
  int count = 0, group = first_group_;
  for (const auto& end : ends_) {
    if (end != 0) {
      groups += fmt::format("{}{}", groups.empty() ? "" : ", ", group);
      ++count;
    }
    ++group;
  }
  return fmt::format("{} of {} groups failed ({}), exit code {}", count, ends_.size(), groups, first_);
}

}  // namespace dtrain::launcher
