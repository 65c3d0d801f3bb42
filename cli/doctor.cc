// The report of `dtrain doctor`.
#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kColumn = 24;

std::string_view word(Finding::Level level) {
  switch (level) {
    case Finding::Level::ok:
      return "ok";
    case Finding::Level::warn:
      return "warn";
    case Finding::Level::fail:
      return "FAIL";
  }
  return "";
}

std::string lines(std::string left, const std::string& text) {
  std::string out;
  for (const std::string& line : wrapped(text, kWidth - kColumn)) {
    out += fmt::format("{:<{}}{}\n", left, kColumn, line);
    left.clear();
  }
  return out;
}

}  // namespace

std::string report(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += lines(fmt::format("{:<5} {} ", word(finding.level), finding.what), finding.detail);
    if (!finding.cure.empty()) out += lines("", "-> " + finding.cure);
  }
  auto count = [&](Finding::Level level) {
    return std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.level == level; });
  };
  auto failed = count(Finding::Level::fail), warned = count(Finding::Level::warn);
  if (failed > 0) return out + fmt::format("\n{} of {} checks failed\n", failed, findings.size());
  if (warned > 0) return out + fmt::format("\nready to run jobs, with {} warning{}\n", warned, warned == 1 ? "" : "s");
  return out + "\nready to run jobs\n";
}

int verdict(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    if (finding.level == Finding::Level::fail) return 1;
  return 0;
}

}  // namespace dtrain::cli
