// --strategy: a word, JSON, or a file of JSON. The training layer reads it in each worker; here the same parser says
// what is wrong before a worker starts.
// Tested by test/unit/cli/resolve/resolve_strategy_test.cc.
#include <fmt/format.h>

#include "cli/base/usage_error.h"
#include "cli/parse/loader_text.h"
#include "cli/parse/strategy_text.h"
#include "cli/resolve/resolve_parts.h"
#include "strategies/config/why_refused.h"

namespace dtrain::cli {
namespace {

// Linux takes no more for "DTRAIN_STRATEGY=..." and the zero behind it (MAX_ARG_STRLEN).
constexpr std::size_t kMostBytes = 131072 - sizeof("DTRAIN_STRATEGY=");

JobSize size_of(const launcher::JobSpec& spec) {
  if (spec.nodes.min != spec.nodes.max) return {};
  return {.ranks = spec.nodes.min * spec.nproc_per_node, .ranks_of_host = spec.nproc_per_node};
}

}  // namespace

Result<void> resolve_strategy(const Given& given, Plan& plan) {
  const std::string& value = given.options.text(FlagId::strategy);
  if (value.empty()) return {};
  const auto blamed = [&](const Error& error) { return given.options.blame(FlagId::strategy, error); };
  auto text = strategy_text(value, given.host.read_text);
  if (!text) return blamed(text.error());
  if (text->size() > kMostBytes) {
    return blamed(usage_error(fmt::format(
        "it has {} bytes, and an environment variable of Linux at most {}; remove what training does not need",
        text->size(), kMostBytes)));
  }
  if (auto wrong = config::why_refused(*text, size_of(plan.spec))) return blamed(usage_error(*wrong));
  plan.spec.strategy = *text;
  return {};
}

Result<void> resolve_loader(const Given& given, Plan& plan) {
  if (given.options.text(FlagId::loader).empty()) {
    // `--loader ''`: workers must not inherit what the variable says.
    if (!given.host.variable("DTRAIN_LOADER").empty()) plan.spec.loader = "{}";
    return {};
  }
  auto text = loader_text(given.options.text(FlagId::loader));
  if (!text) return given.options.blame(FlagId::loader, text.error());
  plan.spec.loader = std::move(*text);
  return {};
}

}  // namespace dtrain::cli
