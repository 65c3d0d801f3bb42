// Chooses variables and lays the facts out.
#include "cli/doctor/env_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"
#include "cli/doctor/redact.h"

namespace dtrain::cli {
namespace {

// Open MPI also puts the job's key and its command line into the environment: of its names, only those of ranks.
constexpr std::string_view kPrefixes[] = {
    "PET_", "DTRAIN_", "TORCH", "PYTORCH_", "NCCL_", "GLOO_",       "OMP_",
    "MKL_", "KMP_",    "CUDA_", "NVIDIA_",  "HIP_",  "ROCR_",       "SLURM_",
    "PMI_", "PYTHON",  "UCX_",  "FI_",      "LC_",   "ACCELERATE_", "OMPI_COMM_WORLD_"};
constexpr std::string_view kNames[] = {
    "PATH",      "LD_LIBRARY_PATH",   "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR", "TERM",       "NO_COLOR",
    "LANG",      "COLUMNS",           "LOGLEVEL",   "MASTER_ADDR", "MASTER_PORT",  "RANK",   "WORLD_SIZE", "LOCAL_RANK",
    "USE_LIBUV", "OMPI_UNIVERSE_SIZE"};

bool relevant(std::string_view name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

std::vector<Fact> shown_variables(const std::map<std::string, std::string>& env) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : env)
    if (relevant(name)) facts.push_back({name, redacted(name, value)});
  return facts;
}

std::string env_text(const std::vector<FactGroup>& groups) {
  std::string out;
  for (const FactGroup& group : groups) {
    out += fmt::format("{}{}\n", out.empty() ? "" : "\n", group.title);
    std::size_t widest = 0;
    for (const Fact& fact : group.facts) widest = std::max(widest, std::min<std::size_t>(fact.name.size(), 24));
    for (const Fact& fact : group.facts)
      out += fmt::format("  {:<{}}  {}\n", fact.name, widest, printable(fact.value, 1000));
  }
  return out;
}

std::string env_json(const std::vector<FactGroup>& groups) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const FactGroup& group : groups) {
    out[group.title] = nlohmann::ordered_json::object();
    for (const Fact& fact : group.facts) out[group.title][fact.name] = fact.value;
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
