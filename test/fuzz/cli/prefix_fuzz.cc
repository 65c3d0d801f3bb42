// Fuzzes $-templates, of prefixes and of the program's arguments: nothing that is known stays unexpanded, nothing else
// changes, and expanding is over in one go.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/resolve/resolve.h"
#include "launcher/job/prefix.h"
#include "launcher/job/text_template.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;
using launcher::DoubleDollar;
using launcher::substitute;

namespace {

constexpr const char* kNames[] = {"role_name", "local_rank", "rank", "hostname"};

// Whether a `$name` or `${name}` of a known name is in the text, other than behind a `$$`.
bool has_known(const std::string& text) {
  std::size_t dollars = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    dollars = text[i] == '$' ? dollars + 1 : 0;
    if (dollars % 2 == 0) continue;
    for (const std::string name : kNames) {
      if (text.compare(i + 1, name.size() + 2, "{" + name + "}") == 0) return true;
      if (text.compare(i + 1, name.size(), name) != 0) continue;
      const char next = i + 1 + name.size() < text.size() ? text[i + 1 + name.size()] : ' ';
      const bool ends = !(next == '_' || (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z') ||
                          (next >= 'a' && next <= 'z'));
      if (ends) return true;
    }
  }
  return false;
}

void check_template(const std::string& text) {
  DT_CHECK(substitute(text, {}, DoubleDollar::keep) == text, "unknown names stay");
  std::vector<std::pair<std::string, std::string>> fields;
  // Not bytes of a name: what is put in completes no other one.
  for (const char* name : kNames) fields.emplace_back(name, "<7>");
  const std::string expanded = substitute(text, fields, DoubleDollar::keep);
  DT_CHECK(!has_known(expanded), "nothing known is left");
  DT_CHECK(has_known(text) || expanded == text, "nothing else changes");
  DT_CHECK(substitute(expanded, fields, DoubleDollar::keep) == expanded, "once is enough");
  // A `$$` that becomes `$` is the only other difference.
  std::string collapsed;
  for (std::size_t i = 0; i < expanded.size(); ++i) {
    collapsed += expanded[i];
    if (expanded[i] == '$' && i + 1 < expanded.size() && expanded[i + 1] == '$') ++i;
  }
  DT_CHECK(substitute(text, fields, DoubleDollar::collapse) == collapsed, "$$ is $");
}

}  // namespace

// The template.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_template(text);
  Host host;
  host.probe = [](const std::string&) {
    return FileFacts{FileFacts::Kind::file, true, true, true, true, "#!/bin/sh\n"};
  };
  host.env["DTRAIN_LOG_LINE_PREFIX_TEMPLATE"] = text;
  static const auto ours = parse(std::vector<std::string>{"/bin/true"}, CalledAs::dtrain);
  static const auto torchruns = parse(std::vector<std::string>{"/bin/true"}, CalledAs::torchrun);
  for (const auto* raw : {&ours, &torchruns}) {
    const auto plan = resolve(**raw, host);
    if (!plan) {
      check_one_line(plan.error().message);
      continue;
    }
    const std::string prefix = launcher::render_prefix(plan->spec.prefix_template, {"<7>", 7, 7, "<7>"});
    DT_CHECK(prefix.find("${rank}") == std::string::npos || text.find("$$") != std::string::npos, "the rank is known");
  }
  return 0;
}
