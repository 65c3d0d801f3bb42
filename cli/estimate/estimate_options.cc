// Tested by test/unit/cli/estimate/estimate_test.cc.
#include "cli/estimate/estimate_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/parse/command_words.h"

namespace dtrain::cli {
namespace {

constexpr double kMostParameters = 1e15;
constexpr int kMostEstimatedNodes = 16384;

using Suffixes = std::initializer_list<std::pair<const char*, double>>;

// A positive number, times what its suffix means. 0: it is none.
double with_suffix(const std::string& text, Suffixes suffixes) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  const auto number = parse_python_float(text.substr(0, digits));
  if (!number) return 0;
  for (const auto& [name, factor] : suffixes)
    if (text.substr(digits) == name) return *number * factor;
  return 0;
}

const std::map<std::string, int, std::less<>>& numbers_of_optimizers() {
  static const std::map<std::string, int, std::less<>> numbers{
      {"adam", 2}, {"adamw", 2}, {"lamb", 2}, {"adagrad", 1}, {"muon", 1}, {"sgd", 0}, {"sgd-momentum", 1}};
  return numbers;
}

Result<void> read_units(const std::string& text, EstimateOptions& options) {
  if (all_digits(text)) {
    auto count = parse_number(text, 1, 1000000);
    if (!count) return count.error().in("--units");
    options.unit_count = *count;
    return {};
  }
  for (const std::string& pattern : split(text, ',')) {
    if (pattern != "N" && !pattern.starts_with("N.") && !pattern.ends_with(".N") &&
        pattern.find(".N.") == std::string::npos)
      return usage_error(fmt::format("--units '{}': a pattern has N where names have a number, such as model.layers.N",
                                     printable(pattern)));
    options.units.push_back(pattern);
  }
  return {};
}

Result<void> read_ranks(std::map<std::string, std::string>& flags, EstimateOptions& options) {
  const auto read = [&](const char* name, int most, int& into) -> Result<void> {
    if (!flags.contains(name)) return {};
    auto number = parse_number(flags[name], 1, most);
    if (!number) return number.error().in(fmt::format("--{}", name));
    into = *number;
    return {};
  };
  if (flags.contains("ranks") && (flags.contains("nproc") || flags.contains("nnodes")))
    return usage_error("give --ranks, or --nproc and --nnodes, but not both");
  if (!flags.contains("ranks") && !flags.contains("nproc"))
    return usage_error("say how many ranks there are: --nproc N, with --nnodes N if there are several nodes");
  options.knows_nodes = !flags.contains("ranks");
  if (auto done = read("ranks", kMostWorkersOfNode, options.nproc); !done) return done;
  if (auto done = read("nproc", kMostWorkersOfNode, options.nproc); !done) return done;
  return read("nnodes", kMostEstimatedNodes, options.nnodes);
}

Result<void> read_flags(std::map<std::string, std::string>& flags, EstimateOptions& options) {
  options.json = flags.contains("json");
  options.state_on_disk = flags.contains("state-on-disk");
  if (flags.contains("parameters")) {
    auto count = parse_parameters(flags["parameters"]);
    if (!count) return count.error().in("--parameters");
    options.parameters = *count;
  }
  if (flags.contains("memory")) {
    auto bytes = parse_memory(flags["memory"]);
    if (!bytes) return bytes.error().in("--memory");
    options.memory = *bytes;
  }
  if (flags.contains("optimizer"))
    if (auto done = take_optimizer(flags["optimizer"], options); !done) return done.error().in("--optimizer");
  if (flags.contains("strategy")) {
    options.strategy = flags["strategy"];
    if (options.strategy.empty()) return usage_error("--strategy: it is empty");
  }
  if (flags.contains("micro-batches")) {
    auto count = parse_number(flags["micro-batches"], 1, 1 << 20);
    if (!count) return count.error().in("--micro-batches");
    options.micro_batches = *count;
  }
  if (flags.contains("state")) {
    options.state = flags["state"];
    if (auto fine = one_of(options.state, {"float32", "bfloat16"}); !fine) return fine.error().in("--state");
    options.state_bytes = options.state == "float32" ? 4 : 2;
  }
  if (flags.contains("units"))
    if (auto done = read_units(flags["units"], options); !done) return done;
  return read_ranks(flags, options);
}

}  // namespace

Result<void> take_optimizer(const std::string& name, EstimateOptions& options) {
  std::vector<std::string> known;
  for (const auto& [each, count] : numbers_of_optimizers()) known.push_back(each);
  if (auto fine = one_of(name, known); !fine) return fine.error();
  options.optimizer = name;
  options.state_numbers = numbers_of_optimizers().at(name);
  return {};
}

Result<std::int64_t> parse_parameters(const std::string& text) {
  const double count = with_suffix(
      text, {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"m", 1e6}, {"M", 1e6}, {"b", 1e9}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}});
  if (!(count >= 1 && count <= kMostParameters))
    return usage_error(fmt::format("'{}' is no number of parameters, such as 350M, 7B or 7e9", printable(text)));
  return static_cast<std::int64_t>(count);
}

Result<double> parse_memory(const std::string& text) {
  constexpr double kKi = 1024;
  const double bytes = with_suffix(text, {{"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"M", 1e6},
                                          {"G", 1e9},
                                          {"T", 1e12},
                                          {"MiB", kKi * kKi},
                                          {"GiB", kKi * kKi * kKi},
                                          {"TiB", kKi * kKi * kKi * kKi}});
  if (!(bytes >= 1 && bytes <= 1e18))
    return usage_error(fmt::format("'{}' is no amount of memory, such as 80GB, 75GiB or 500MB", printable(text)));
  return bytes;
}

Result<EstimateOptions> parse_estimate(const std::vector<std::string>& words) {
  std::vector<std::string> flag_words = words;
  const std::vector<std::string> plain = take_plain_words(*find_command("estimate"), flag_words);
  auto flags = command_words(CommandId::estimate, flag_words, Unknown::repeated);
  if (!flags) return flags.error();
  EstimateOptions options;
  if (auto done = read_flags(*flags, options); !done) return done.error();
  if (plain.size() > 1) return usage_error(fmt::format("name one path; {} is a second one", printable(plain[1])));
  if (plain.empty() == (options.parameters == 0))
    return usage_error("name the files of a model, or give the number of its parameters: --parameters 7B");
  if (!plain.empty()) options.path = plain[0];
  if (options.path.empty() && !options.units.empty())
    return usage_error("--units: a pattern needs names of parameters; give a number of units");
  if (!options.path.empty() && options.unit_count > 0)
    return usage_error("--units: name the units of these files by a pattern, such as model.layers.N");
  return options;
}

}  // namespace dtrain::cli
