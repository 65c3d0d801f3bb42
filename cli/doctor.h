#pragma once
// `dtrain doctor`: what this machine can do for a job. Checks give findings; one place prints them and decides the
// exit code, so a new check is one function in a list.
#include <string>
#include <vector>

namespace dtrain::cli {

struct Finding {
  enum class Level { ok, warn, fail } level = Level::ok;
  std::string what;    // "shared memory"
  std::string detail;  // "/dev/shm, 64 MiB free"
  std::string cure;    // what to do about it; empty for ok
};

// One check: may ask the system, must not take longer than a few seconds, must leave nothing behind.
using Check = std::vector<Finding> (*)();

// The checks of `dtrain doctor`, in the order of the report (doctor_checks.cc).
std::vector<Check> all_checks();

// The report as text, width 80 where words allow. Pure.
std::string report(const std::vector<Finding>& findings);
// 0, or 1 if something that a job needs is missing. Pure.
int verdict(const std::vector<Finding>& findings);

}  // namespace dtrain::cli
