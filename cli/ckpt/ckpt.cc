#include "cli/ckpt/ckpt.h"

#include <fmt/format.h>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_files.h"
#include "cli/ckpt/ckpt_text.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

constexpr int kDamaged = 1;

struct CkptAsked {
  bool verify = false;
  bool json = false;
  std::string path;
};

Result<CkptAsked> parse_ckpt(const std::vector<std::string>& words) {
  CkptAsked asked;
  std::vector<std::string> plain;
  for (const std::string& word : words) {
    if (word == "--json")
      asked.json = true;
    else if (word.starts_with('-'))
      return unknown_flag(*find_command("ckpt"), word);
    else
      plain.push_back(word);
  }
  if (plain.empty() || (plain[0] != "inspect" && plain[0] != "verify"))
    return usage_error("say what to do: dtrain ckpt inspect PATH, or dtrain ckpt verify PATH");
  if (plain.size() != 2)
    return usage_error(fmt::format(
        "name one path: dtrain ckpt {} PATH, where PATH is a checkpoint, a folder of checkpoints or a safetensors file",
        plain[0]));
  asked.verify = plain[0] == "verify";
  asked.path = plain[1];
  if (asked.verify && asked.json) return usage_error("dtrain ckpt verify has no --json");
  return asked;
}

}  // namespace

int ckpt_command(const std::vector<std::string>& words) {
  auto asked = parse_ckpt(words);
  if (!asked) return fail(asked.error());
  auto ckpt = open_ckpt(asked->path);
  if (!ckpt) return fail(ckpt.error());
  if (asked->verify) verify_ckpt(*ckpt);
  const bool damaged = !ckpt->first_damage().empty();
  std::string text = asked->json ? ckpt_json(*ckpt) : ckpt_text(*ckpt);
  if (asked->verify) text = ckpt_verdict(*ckpt);
  const int printed = asked->verify || !damaged ? print(text) : fail(usage_error(ckpt->first_damage()));
  if (printed != 0 && !damaged) return printed;
  return damaged ? kDamaged : 0;
}

}  // namespace dtrain::cli
