#include "cli/ckpt/ckpt_words.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

using What = CkptAsked::What;

struct CkptWord {
  std::string_view word;
  What what;
};
constexpr std::array<CkptWord, 4> kWords{{{"inspect", What::inspect},
                                          {"verify", What::verify},
                                          {"consolidate", What::consolidate},
                                          {"convert", What::convert}}};

bool writes(What what) { return what == What::consolidate || what == What::convert; }

Result<std::string> type_named(std::string_view name) {
  if (name == "float32") return std::string("F32");
  if (name == "bfloat16") return std::string("BF16");
  if (name == "float16") return std::string("F16");
  return usage_error("expected float32, bfloat16 or float16");
}

// Names in safetensors are UTF-8.
bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

Result<void> take_flag(CkptAsked& asked, std::string_view flag, const std::string& value) {
  if (flag == "dtype") {
    auto type = type_named(value);
    if (!type) return type.error();
    asked.rewrite.type = std::move(*type);
  } else if (flag == "max-size") {
    auto size = parse_size(value);
    if (!size) return size.error();
    asked.rewrite.max_bytes = *size;
  } else if (flag == "rename") {
    const std::size_t equals = value.find('=');
    if (equals == std::string::npos || equals == 0)
      return usage_error("expected FROM=TO, the old and the new beginning of names");
    if (!is_utf8(value)) return usage_error("names are UTF-8, and this is not");
    asked.rewrite.renames.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  } else {
    asked.json = true;
  }
  return {};
}

// A flag that the word does not have.
std::string_view misplaced(const CkptAsked& asked) {
  if (asked.json && asked.what != What::inspect) return "--json";
  if (asked.rewrite.max_bytes != 0 && !writes(asked.what)) return "--max-size";
  if (!asked.rewrite.type.empty() && asked.what != What::convert) return "--dtype";
  if (!asked.rewrite.renames.empty() && asked.what != What::convert) return "--rename";
  return {};
}

Result<CkptAsked> completed(CkptAsked asked, const std::vector<std::string>& plain) {
  const CkptWord* found = nullptr;
  for (const CkptWord& each : kWords)
    if (!plain.empty() && plain[0] == each.word) found = &each;
  if (found == nullptr)
    return usage_error(
        "say what to do: dtrain ckpt inspect PATH, dtrain ckpt verify PATH, dtrain ckpt consolidate PATH FOLDER, or "
        "dtrain ckpt convert PATH FOLDER");
  asked.what = found->what;
  const char* const path = "PATH is a checkpoint, a folder of checkpoints or a safetensors file";
  if (!writes(asked.what) && plain.size() != 2)
    return usage_error(fmt::format("name one path: dtrain ckpt {} PATH, where {}", found->word, path));
  if (writes(asked.what) && plain.size() != 3)
    return usage_error(fmt::format("name two paths: dtrain ckpt {} PATH FOLDER, where {}, and FOLDER is to be made",
                                   found->word, path));
  if (const std::string_view flag = misplaced(asked); !flag.empty())
    return usage_error(fmt::format("dtrain ckpt {} has no {}", found->word, flag));
  if (asked.what == What::convert && asked.rewrite.type.empty() && asked.rewrite.renames.empty())
    return usage_error("dtrain ckpt convert needs --dtype or --rename; without them `consolidate` copies");
  asked.path = plain[1];
  if (writes(asked.what)) asked.folder = plain[2];
  if (writes(asked.what) && asked.folder.empty()) return usage_error("FOLDER is empty; name the folder to be made");
  return asked;
}

}  // namespace

Result<CkptAsked> parse_ckpt(const std::vector<std::string>& words) {
  const Command& command = *find_command("ckpt");
  CkptAsked asked;
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-')) {
      plain.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string typed = word.substr(0, equals);
    const CommandFlag* row = nullptr;
    for (const CommandFlag& each : command.flags)
      if (typed == fmt::format("--{}", each.name)) row = &each;
    if (row == nullptr) return unknown_flag(command, typed);
    std::string value;
    if (row->value.empty()) {
      if (equals != std::string::npos) return usage_error(typed + " takes no value");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      return usage_error(fmt::format("{} needs a value: {}", typed, row->value));
    }
    if (auto taken = take_flag(asked, row->name, value); !taken)
      return taken.error().in(fmt::format("{} '{}'", typed, printable(value)));
  }
  return completed(std::move(asked), plain);
}

}  // namespace dtrain::cli
