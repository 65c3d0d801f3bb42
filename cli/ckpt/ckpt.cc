#include "cli/ckpt/ckpt.h"

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_text.h"
#include "cli/ckpt/ckpt_words.h"
#include "cli/ckpt/ckpt_write.h"

namespace dtrain::cli {
namespace {

using What = CkptAsked::What;

constexpr int kDamaged = 1;

int say_damaged(const std::string& damage) {
  fail(usage_error(damage));
  return kDamaged;
}

int verify(Ckpt& ckpt) {
  verify_ckpt(ckpt);
  const int printed = print(ckpt_verdict(ckpt));
  return ckpt.first_damage().empty() ? printed : kDamaged;
}

int write(const Ckpt& ckpt, const CkptAsked& asked) {
  const auto plan = plan_ckpt(ckpt, asked.rewrite);
  if (!plan) return fail(plan.error());
  const auto written = write_ckpt(ckpt, *plan, asked.folder);
  if (!written) return fail(written.error());
  if (!written->damage.empty()) return say_damaged(written->damage);
  return print(ckpt_written_text(ckpt, *plan, asked.folder, written->bytes));
}

}  // namespace

int ckpt_command(const std::vector<std::string>& words) {
  const auto asked = parse_ckpt(words);
  if (!asked) return fail(asked.error());
  auto ckpt = open_ckpt(asked->path);
  if (!ckpt) return fail(ckpt.error());
  if (asked->what == What::verify) return verify(*ckpt);
  if (const std::string damage = ckpt->first_damage(); !damage.empty()) return say_damaged(damage);
  if (asked->what == What::inspect) return print(asked->json ? ckpt_json(*ckpt) : ckpt_text(*ckpt));
  return write(*ckpt, *asked);
}

}  // namespace dtrain::cli
