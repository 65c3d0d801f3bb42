// Chooses variables, takes secrets out, and lays the facts out.
#include "cli/env_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/text.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kHidden = "<redacted>";

// Any name with one of these in it.
constexpr std::string_view kSecrets[] = {"TOKEN",      "SECRET", "KEY",    "PASSWORD", "PASSWD",  "PASSPHRASE",
                                         "CREDENTIAL", "AUTH",   "COOKIE", "JWT",      "PRIVATE", "SIGNATURE"};

constexpr std::string_view kPrefixes[] = {"PET_", "DTRAIN_", "TORCH",  "PYTORCH_", "NCCL_", "GLOO_", "OMP_",
                                          "MKL_", "KMP_",    "CUDA_",  "NVIDIA_",  "HIP_",  "ROCR_", "SLURM_",
                                          "PMI_", "OMPI_",   "PYTHON", "UCX_",     "FI_",   "LC_",   "ACCELERATE_"};
constexpr std::string_view kNames[] = {
    "PATH",     "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR", "TERM",       "NO_COLOR",
    "LANG",     "COLUMNS",         "LOGLEVEL",   "MASTER_ADDR", "MASTER_PORT",  "RANK",   "WORLD_SIZE", "LOCAL_RANK",
    "USE_LIBUV"};

constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

std::string upper(std::string_view text) {
  std::string out;
  for (char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

bool secret(std::string_view name) {
  std::string whole = upper(name);
  return std::any_of(std::begin(kSecrets), std::end(kSecrets),
                     [&](std::string_view part) { return whole.find(part) != std::string::npos; });
}

bool relevant(std::string_view name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool ends_word(char c) { return std::string_view(" \t\n,;&\"'").find(c) != std::string_view::npos; }

// "https://me:word@host/x" -> "https://<redacted>@host/x", wherever it stands.
std::string without_users(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    std::size_t begin = at + 3;
    std::size_t end = begin;
    while (end < text.size() && text[end] != '/' && text[end] != '?' && !ends_word(text[end])) ++end;
    std::size_t sign = std::string_view(text).substr(begin, end - begin).rfind('@');
    if (sign != std::string::npos) text.replace(begin, sign, kHidden);
  }
  return text;
}

// "a=1,api_token=xyz" -> "a=1,api_token=<redacted>".
std::string without_assignments(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && !ends_word(text[end]) && text[end] != '?') ++end;
    std::string word = text.substr(i, end - i);
    std::size_t equals = word.find_first_of("=:");
    bool named = equals != std::string::npos && word.find_first_not_of(kNameBytes) == equals;
    bool hide = named && equals + 1 < word.size() && secret(word.substr(0, equals));
    out += hide ? word.substr(0, equals + 1) + std::string(kHidden) : word;
    if (end < text.size()) out += text[end];
    i = end + 1;
  }
  return out;
}

}  // namespace

std::string redacted(std::string_view name, std::string_view value) {
  if (value.empty()) return "";
  if (secret(name)) return std::string(kHidden);
  return without_assignments(without_users(std::string(value)));
}

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
