// argparse's rules over the flag table.
#include "cli/parse.h"

#include <fmt/format.h>

#include "cli/text.h"

namespace dtrain::cli {
namespace {

Error usage(std::string message) { return {ErrorKind::usage, std::move(message)}; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A word that cannot be the value of a flag: it looks like a flag itself. "-1" and "-" do not.
bool looks_like_flag(const std::string& word) { return word.size() > 1 && word[0] == '-' && !is_digit(word[1]); }

std::string join_names(const std::vector<const Flag*>& found) {
  std::string out;
  for (const Flag* row : found) out += (out.empty() ? "" : ", ") + spelled(*row);
  return out;
}

std::string closest_flag(const std::string& name) {
  std::vector<std::string> names;
  for (const Flag& row : flags()) {
    names.emplace_back(row.name);
    if (!row.alias.empty()) names.emplace_back(row.alias);
  }
  return closest(name, names);
}

Result<const Flag*> look_up(const std::string& name, const std::string& word) {
  if (const Flag* exact = find_flag(name)) return exact;
  auto found = name.empty() ? std::vector<const Flag*>{} : flags_with_prefix(name);
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    return usage(fmt::format("{} could mean {}; write more of its name", printable(word), join_names(found)));
  std::string near = closest_flag(name);
  if (!near.empty()) return usage(fmt::format("unknown flag {}; did you mean --{}?", printable(word), near));
  return usage(fmt::format("unknown flag {}; `dtrain run --help` lists them (flags of the program go after its name)",
                           printable(word)));
}

class Parser {
 public:
  explicit Parser(std::span<const std::string> words) : words_(words) {}

  Result<RawOptions> run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_];
      if (word == "--") {
        ++next_;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      ++next_;
      auto taken = word[1] == '-' ? take_long(word) : take_letters(word);
      if (!taken) return taken.error();
    }
    out_.command.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    return std::move(out_);
  }

 private:
  Result<void> take_long(const std::string& word) {
    std::size_t equals = word.find('=');
    std::string typed = word.substr(0, equals);
    auto found = look_up(typed.substr(2), typed);
    if (!found) return found.error();
    const Flag& row = **found;
    if (equals == std::string::npos && !row.is_switch()) return take_next(row, typed);
    if (equals != std::string::npos && row.is_switch())
      return usage(fmt::format("{} takes no value ({})", typed, printable(word)));
    set(row, row.is_switch() ? "1" : word.substr(equals + 1), typed);
    return {};
  }

  // -m, -t3, -t=3, -t 3, and switches in front: -mt3.
  Result<void> take_letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Flag* row = find_letter(word[i]);
      if (row == nullptr) return usage(fmt::format("unknown flag {}; `dtrain run --help` lists them", printable(word)));
      std::string typed = {'-', word[i]};
      if (!row->is_switch()) {
        std::string rest = word.substr(i + 1);
        if (rest.empty()) return take_next(*row, typed);
        set(*row, rest[0] == '=' ? rest.substr(1) : rest, typed);
        return {};
      }
      set(*row, "1", typed);
    }
    return {};
  }

  Result<void> take_next(const Flag& row, const std::string& typed) {
    if (next_ == words_.size() || looks_like_flag(words_[next_]))
      return usage(fmt::format("{} needs a value: {} {}", typed, spelled(row), row.value));
    set(row, words_[next_++], typed);
    return {};
  }

  void set(const Flag& row, std::string text, const std::string& typed) {
    out_[row.id] = RawValue{std::move(text), Origin::flag, typed};
  }

  std::span<const std::string> words_;
  std::size_t next_ = 0;
  RawOptions out_;
};

}  // namespace

Result<RawOptions> parse(std::span<const std::string> words) { return Parser(words).run(); }

}  // namespace dtrain::cli
