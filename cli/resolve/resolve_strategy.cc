// --strategy: a word, JSON, or a file of JSON. The training layer reads it in each worker; here the same parser says
// what is wrong before a worker starts.
// Tested by test/unit/cli/resolve/resolve_strategy_test.cc.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/base/usage_error.h"
#include "cli/resolve/resolve_parts.h"
#include "strategies/config/why_refused.h"

namespace dtrain::cli {
namespace {

// Linux takes no more for "DTRAIN_STRATEGY=..." and the zero behind it (MAX_ARG_STRLEN).
constexpr std::size_t kMostBytes = 131072 - sizeof("DTRAIN_STRATEGY=");

bool is_file(const std::string& text) {
  return text.find_first_of("{\"[") == std::string::npos &&
         (text.find('/') != std::string::npos || text.find('.') != std::string::npos);
}

// Without white space outside of its strings.
std::string dense(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? text : json.dump();
}

Result<std::string> text_of(const std::string& value, const Host& host) {
  if (!is_file(value)) return value;
  auto text = host.read_text(value);
  if (!text) return text.error();
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) return usage_error("the file is empty");
  if ((*text)[text->find_first_not_of(" \t\r\n")] != '{')
    return usage_error("the file is not a JSON object; dtrain reads JSON, not YAML (docs/training/config.md)");
  // A name that is there twice is an error, and would be lost here.
  if (auto wrong = config::why_refused(*text, {})) return usage_error(*wrong);
  return dense(*text);
}

JobSize size_of(const launcher::JobSpec& spec) {
  if (spec.nodes.min != spec.nodes.max) return {};
  return {.ranks = spec.nodes.min * spec.nproc_per_node, .ranks_of_host = spec.nproc_per_node};
}

}  // namespace

Result<void> resolve_strategy(const Given& given, Plan& plan) {
  const std::string& value = given.options.text(FlagId::strategy);
  if (value.empty()) return {};
  const auto blamed = [&](const Error& error) { return given.options.blame(FlagId::strategy, error); };
  auto text = text_of(value, given.host);
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

}  // namespace dtrain::cli
