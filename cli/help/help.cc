// Lays out the tables as help: one screen, all flags, or a page on one thing.
#include "cli/help/help.h"

#include <fmt/format.h>

#include <array>

#include "cli/base/text.h"
#include "cli/table/command_table.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

// The flags of `dtrain run --help`, if this version does them in full.
constexpr std::array kCommon = {FlagId::nproc,  FlagId::nnodes, FlagId::rdzv_endpoint, FlagId::max_restarts,
                                FlagId::module, FlagId::tee,    FlagId::log_dir,       FlagId::failure_grace,
                                FlagId::report, FlagId::quiet,  FlagId::dry_run,       FlagId::help};

std::string flag_lines(const Flag& row, std::size_t width) {
  std::string text(row.help);
  if (!row.fallback.empty()) text += fmt::format(" [{}]", row.fallback);
  return entry(synopsis(row), text, kFlagColumn, width);
}

std::string usage_of_run(std::size_t width) {
  return paragraph(fmt::format("Usage: dtrain run {}", find_command("run")->arguments), width) + "\n";
}

std::string usage_of(const Command& row, std::size_t width) {
  return paragraph(fmt::format("Usage: dtrain {} {}", row.name, row.arguments), width);
}

std::string partial_flags() {
  std::string names;
  for (const Flag& row : flags())
    if (row.compat != Compat::none) names += (names.empty() ? "" : ", ") + spelled(row);
  return names;
}

std::string page(const Flag& row, std::size_t width) {
  std::string out = synopsis(row) + "\n" + paragraph(row.help, width, 2);
  if (!row.details.empty()) out += "\n" + paragraph(row.details, width, 2);
  out += "\n";
  auto fact = [&](const char* label, const std::string& text) {
    constexpr std::size_t kLabels = 16;
    if (text.empty()) return;
    out += width < 2 * kLabels + kNarrowest / 2 ? fmt::format("  {}\n", label) + paragraph(text, width, 2)
                                                : entry(label, text, kLabels, width);
  };
  if (!row.alias.empty()) fact("Also:", fmt::format("--{}", row.alias));
  fact("Values:", in_words(row.choices));
  fact("Default:", std::string(row.fallback));
  fact("Environment:", variables(row));
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string page(const Command& row, std::size_t width) {
  if (row.id == CommandId::run) return run_help(width);
  std::string out = usage_of(row, width) + "\n" +
                    paragraph(row.details.empty() ? sentence(row.help) : std::string(row.details), width);
  if (!row.flags.empty()) out += "\nFlags:\n";
  for (const CommandFlag& flag : row.flags) out += entry(synopsis(flag), flag.help, kFlagColumn, width);
  return out;
}

std::string page(const Topic& topic, std::size_t width) {
  constexpr std::size_t kNameColumn = 30;
  std::size_t longest = 0;
  for (const TopicEntry& row : topic.entries) longest = std::max(longest, row.term.size());
  std::string out = paragraph(topic.intro, width) + "\n";
  for (const TopicEntry& row : topic.entries)
    out += entry(row.term, row.text, std::min(longest + 4, kNameColumn), width);
  return out;
}

const Flag* flag_called(std::string name) {
  if (name.size() == 2 && name[0] == '-') return find_letter(name[1]);
  while (name.starts_with('-')) name.erase(0, 1);
  if (const Flag* exact = find_flag(name)) return exact;
  auto found = name.empty() ? std::vector<const Flag*>{} : flags_with_prefix(name);
  return found.size() == 1 ? found[0] : nullptr;
}

}  // namespace

std::string short_help(std::size_t width) {
  constexpr std::size_t kNameColumn = 14;
  std::string out = paragraph("dtrain runs distributed PyTorch and LibTorch programs.", width) + "\nUsage:\n" +
                    paragraph("dtrain run [flags] PROGRAM [program's arguments]", width, 2) + "\nCommands:\n";
  for (const Command& row : commands())
    if (!row.once) out += entry(row.name, row.help, kNameColumn, width);
  out += "\nExample:\n" + paragraph("dtrain run --nproc 2 ./train --lr=0.01", width, 2) + "\n";
  return out + paragraph("`dtrain run --help` shows the common flags, `dtrain help FLAG` explains one.", width);
}

std::string common_help(std::size_t width) {
  std::string out = usage_of_run(width);
  for (FlagId id : kCommon)
    if (flag(id).compat == Compat::none) out += flag_lines(flag(id), width);
  out += "\n" + paragraph("Everything after PROGRAM belongs to it.", width);
  return out + paragraph(
                   "`dtrain run --help=all` shows all flags, `dtrain help FLAG` explains one. There is also help on "
                   "exit-codes, environment and workers.",
                   width);
}

std::string run_help(std::size_t width) {
  std::string out =
      usage_of_run(width) + paragraph(
                                "Everything after PROGRAM belongs to it. A flag may be written with - or _, as --flag "
                                "VALUE or --flag=VALUE. It may be shortened as long as it is unambiguous. The last "
                                "occurrence counts. Most flags can be set in the environment: see `dtrain help FLAG`.",
                                width);
  for (Group group : kGroups) {
    auto rows = supported(group);
    if (!rows.empty()) out += fmt::format("\n{}:\n", title(group));
    for (const Flag* row : rows) out += flag_lines(*row, width);
  }
  out +=
      "\n" + paragraph("These flags of torchrun have no effect:", width) + paragraph(partial_flags(), width, 2) + "\n";
  return out + paragraph(
                   "Exit code: that of the first failing worker, or 128+n if signal n ended it. 2: wrong usage; 125: "
                   "dtrain itself failed; 126: PROGRAM cannot be executed; 127: PROGRAM was not found.",
                   width);
}

Result<std::string> help_on(std::string_view word, std::size_t width) {
  if (const Command* command = find_command(word)) return page(*command, width);
  for (const Topic& topic : topics())
    if (topic.name == word) return page(topic, width);
  std::string name(word);
  if (const Flag* row = flag_called(name)) return page(*row, width);
  while (name.starts_with('-')) name.erase(0, 1);
  std::string near = closest(name, help_words());
  if (near.empty()) near = only_with_word(name, help_words());
  std::string hint = near.empty() ? "`dtrain run --help=all` lists the flags, `dtrain help` the commands"
                                  : "did you mean " + near + "?";
  return Error{ErrorKind::usage, fmt::format("no help on '{}'; {}", printable(word), hint)};
}

}  // namespace dtrain::cli
