// Runs the checks of `dtrain doctor` within bounds, and prints what they found.
#include "cli/doctor/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/text.h"
#include "cli/children/ask_child.h"
#include "cli/parse/command_words.h"
#include "launcher/terminal/terminal_line.h"
#include "launcher/terminal/wants_color.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using Json = nlohmann::json;
constexpr std::size_t kColumn = 24;

std::string_view level_word(Finding::Level level) {
  switch (level) {
    case Finding::Level::ok:
      return "ok";
    case Finding::Level::warn:
      return "warn";
    case Finding::Level::retry:
      return "retry";
    case Finding::Level::fail:
      return "FAIL";
  }
  return "";
}

std::string colored(Finding::Level level) {
  const char* color = level == Finding::Level::ok ? "1;32" : level == Finding::Level::fail ? "1;31" : "1;33";
  return launcher::colored(color, level_word(level));
}

// Text beside the name where there is room, else below it.
std::string lines(std::string left, const std::string& text, std::size_t width) {
  constexpr std::size_t kBelow = 6;
  if (2 * width < 5 * kColumn) return (left.empty() ? "" : left + "\n") + paragraph(text, width, kBelow);
  std::string out;
  for (const std::string& line : launcher::wrapped(text, width - kColumn))
    out += fmt::format("{:<{}} {}\n", std::exchange(left, ""), kColumn - 1, line);
  return out;
}

std::string packed(const Findings& findings) {
  Json out = Json::array();
  for (const Finding& row : findings) out.push_back({static_cast<int>(row.level), row.what, row.detail, row.cure});
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Findings unpacked(const std::string& text) {
  Json rows = Json::parse(text, nullptr, false);
  Findings findings;
  if (rows.is_array())
    for (const Json& row : rows)
      findings.push_back({static_cast<Finding::Level>(row[0].get<int>()), row[1], row[2], row[3]});
  return findings;
}

Findings examine_one(const Check& check, int patience_ms) {
  using End = ChildAnswer::End;
  const auto [end, text] = ask_child([&] { return packed(check.run()); }, std::chrono::milliseconds(patience_ms));
  switch (end) {
    case End::answered:
      return unpacked(text);
    case End::late:
      return {{Finding::Level::warn, check.what, fmt::format("no answer within {} s", patience_ms / 1000),
               "something that this check uses hangs: a driver, a file system, a network name"}};
    case End::failed:
      return {{Finding::Level::warn, check.what, "the check itself failed", "please report it, with `dtrain env`"}};
    case End::not_started:
      break;
  }
  return {{Finding::Level::fail, check.what, "no process can be started", "raise ulimit -u, or ulimit -n"}};
}

Finding::Level worst_of(const Findings& findings) {
  auto worst = Finding::Level::ok;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

}  // namespace

Findings examine(const std::vector<Check>& checks, int patience_ms) {
  Findings findings;
  for (const Check& check : checks)
    for (Finding& finding : examine_one(check, patience_ms)) findings.push_back(std::move(finding));
  return findings;
}

std::string report(const Findings& findings, std::size_t width, bool colors) {
  std::string out;
  for (const Finding& finding : findings) {
    std::string found = lines(fmt::format("{:<5} {}", level_word(finding.level), finding.what), finding.detail, width);
    if (colors) found.replace(0, level_word(finding.level).size(), colored(finding.level));
    out += found;
    if (!finding.cure.empty()) out += lines("", "-> " + finding.cure, width);
  }
  auto count = [&](Finding::Level level) {
    return std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.level == level; });
  };
  auto failed = count(Finding::Level::fail), warned = count(Finding::Level::warn);
  if (failed > 0) return out + fmt::format("\n{} of {} checks failed\n", failed, findings.size());
  if (count(Finding::Level::retry) > 0) return out + "\nnot ready to run jobs yet\n";
  if (warned > 0) return out + fmt::format("\nready to run jobs, with {}\n", counted(warned, "warning"));
  return out + "\nready to run jobs\n";
}

int verdict(const Findings& findings) { return worst_of(findings) >= Finding::Level::retry ? 1 : 0; }

int preflight_verdict(const Findings& findings) { return 10 * static_cast<int>(worst_of(findings)); }

int doctor_command(const std::vector<std::string>& words) {
  const auto flags = command_words(CommandId::doctor, words, Unknown::repeated);
  if (!flags) return fail(flags.error());
  const Findings findings = examine(all_checks());
  const bool colors = launcher::wants_color(launcher::Color::automatic, STDOUT_FILENO);
  const int printed = print(report(findings, output_width(), colors));
  if (printed != 0) return printed;
  return flags->contains("preflight") ? preflight_verdict(findings) : verdict(findings);
}

std::vector<Check> all_checks() {
  return {{"containment", check_containment},
          {"cgroups", check_cgroups},
          {"cores", check_cores},
          {"memory", check_memory},
          {"limits", check_limits},
          {"shared memory", check_shared_memory},
          {"core dumps", check_core_dumps},
          {"clock", check_clock},
          {"loopback", check_loopback},
          {"owners of connections", check_owners},
          {"ports", check_ports},
          {"meeting place", check_meeting},
          {"GPUs", check_gpus},
          {"engine", check_engine},
          {"MPI", check_mpi},
          {"SLURM", check_slurm},
          {"python", check_python},
          {"build locks", check_build_locks}};
}

}  // namespace dtrain::cli
