// `torchrun --help`: torchrun's flags by its names and in its order, then what dtrain adds.
// Tested by test/unit/cli/help/help_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "cli/help/help.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

constexpr std::array kTorchrunsOrder = {FlagId::help,
                                        FlagId::nnodes,
                                        FlagId::nproc,
                                        FlagId::rdzv_backend,
                                        FlagId::rdzv_endpoint,
                                        FlagId::run_id,
                                        FlagId::rdzv_conf,
                                        FlagId::standalone,
                                        FlagId::max_restarts,
                                        FlagId::monitor_interval,
                                        FlagId::start_method,
                                        FlagId::event_log_handler,
                                        FlagId::role,
                                        FlagId::module,
                                        FlagId::no_python,
                                        FlagId::run_path,
                                        FlagId::log_dir,
                                        FlagId::redirects,
                                        FlagId::tee,
                                        FlagId::prefix_template,
                                        FlagId::local_ranks_filter,
                                        FlagId::duplicate_stdout_filters,
                                        FlagId::duplicate_stderr_filters,
                                        FlagId::node_rank,
                                        FlagId::master_addr,
                                        FlagId::master_port,
                                        FlagId::local_addr,
                                        FlagId::logs_specs,
                                        FlagId::numa_binding,
                                        FlagId::signals_to_handle,
                                        FlagId::shutdown_timeout,
                                        FlagId::virtual_local_rank,
                                        FlagId::print_completion};

bool is_torchruns(const Flag& row) {
  return std::find(kTorchrunsOrder.begin(), kTorchrunsOrder.end(), row.id) != kTorchrunsOrder.end();
}

// Both spellings, as argparse lists them: "--nproc-per-node, --nproc_per_node N".
std::string torchruns_synopsis(const Flag& row, std::size_t width) {
  std::string name = torchrun_name(row);
  std::string out = row.letter != 0 ? fmt::format("-{}, --{}", row.letter, name) : "--" + name;
  std::string other = name;
  std::replace(other.begin(), other.end(), '-', '_');
  const std::string value = row.is_switch() ? "" : fmt::format(" {}", row.value);
  if (other == name) return out + value;
  const bool fits = 2 + out.size() + 2 + 2 + other.size() + value.size() <= width;
  return fmt::format("{},{}--{}{}", out, fits ? " " : "\n  ", other, value);
}

std::string line(const std::string& synopsis, const Flag& row, std::size_t width) {
  std::string text(row.help);
  if (!row.fallback.empty() && row.compat == Compat::none) text += fmt::format(" [{}]", row.fallback);
  return entry(synopsis, text, kFlagColumn, width);
}

}  // namespace

std::string torchrun_help(std::size_t width, CalledAs called) {
  std::string out = paragraph(fmt::format("Usage: {} {}", typed_for(called), find_command("run")->arguments), width);
  if (called == CalledAs::launch) out += "\n" + paragraph(find_command("launch")->details, width);
  out += "\n" + paragraph(
                    "Everything after PROGRAM belongs to it. This is dtrain, called as torchrun. It takes torchrun's "
                    "flags in both spellings.",
                    width);
  out += "\nFlags of torchrun:\n";
  for (FlagId id : kTorchrunsOrder) out += line(torchruns_synopsis(flag(id), width), flag(id), width);
  const Flag& use_env = flag(FlagId::use_env);
  if (called == CalledAs::launch) out += line(torchruns_synopsis(use_env, width), use_env, width);
  out += "\nFlags that dtrain adds:\n";
  for (const Flag& row : flags())
    if (row.compat == Compat::none && !is_torchruns(row) && row.id != FlagId::config && row.id != FlagId::backend)
      out += line(synopsis(row), row, width);
  return out + "\n" + paragraph("`dtrain help FLAG` explains a flag, `dtrain help environment` the variables.", width);
}

}  // namespace dtrain::cli
