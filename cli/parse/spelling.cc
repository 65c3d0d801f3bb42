// Looks every flag up in the table and says what it could have meant.
#include "cli/parse/spelling.h"

#include <fmt/format.h>

#include <optional>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

// "-1", "-.5", "-1.5": argparse's idea of a negative number.
bool negative_number(std::string_view word) {
  std::string_view number = word.substr(1);
  std::size_t dot = number.find('.');
  if (dot == std::string_view::npos) return all_digits(number);
  std::string_view fraction = number.substr(dot + 1);
  return (dot == 0 || all_digits(number.substr(0, dot))) && all_digits(fraction);
}

// Whether argparse takes the word for a flag, known or not, and therefore never for a value.
bool looks_like_flag(const std::string& word, CalledAs called) {
  if (word.size() < 2 || word[0] != '-' || negative_number(word)) return false;
  if (word.find(' ') == std::string::npos) return true;
  if (word[1] != '-') return find_letter(word[1]) != nullptr;
  std::string name = word.substr(2, word.find('=') - 2);
  return find_flag(name) != nullptr || (!name.empty() && !flags_with_prefix(name, called).empty());
}

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
  const std::string near = closest(name, names);
  return near.empty() ? only_with_word(name, names) : near;
}

// What other launchers call the number of workers: -n 4, -n4, -np 4 (mpirun, srun).
bool counts_workers(std::string_view word) {
  const std::string_view rest = word.substr(word.starts_with("-np") ? 3 : 2);
  return word.starts_with("-n") && (rest.empty() || all_digits(rest));
}

std::string lists_flags(CalledAs called) {
  return fmt::format("{} {}", typed_for(called), called == CalledAs::dtrain ? "--help=all" : "--help");
}

Result<const Flag*> look_up(const std::string& name, const std::string& word, CalledAs called) {
  if (const Flag* exact = find_flag(name)) return exact;
  auto found = name.empty() ? std::vector<const Flag*>{} : flags_with_prefix(name, called);
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    return usage_error(fmt::format("{} could mean {}; write more of its name", printable(word), join_names(found)));
  std::string near = closest_flag(name);
  if (!near.empty()) return usage_error(fmt::format("unknown flag {}; did you mean --{}?", printable(word), near));
  return usage_error(fmt::format("unknown flag {}; `{}` lists them (flags of the program go after its name)",
                                 printable(word), lists_flags(called)));
}

class Speller {
 public:
  Speller(std::span<const std::string> rest, CalledAs called) : rest_(rest), called_(called) {}

  Result<Spelled> run() {
    while (!rest_.empty() && rest_[0].size() > 1 && rest_[0][0] == '-' && rest_[0] != "--") {
      const std::string& word = rest_[0];
      rest_ = rest_.subspan(1);
      auto done = word[1] == '-'                                                               ? spell_long(word)
                  : called_ == CalledAs::dtrain && (word == "-np" || word.starts_with("-np=")) ? spell_np(word)
                                                                                               : spell_letters(word);
      if (!done) return done.error();
    }
    out_.words.insert(out_.words.end(), rest_.begin(), rest_.end());
    return std::move(out_);
  }

 private:
  // horovodrun's, which is no row of letters.
  Result<void> spell_np(const std::string& word) {
    const Flag& row = flag(FlagId::num_proc);
    out_.words.push_back(spelled(row));
    out_.flags.push_back({row.id, "-np"});
    spell_value(word.size() > 3 ? std::optional(word.substr(4)) : std::nullopt);
    return {};
  }

  Result<void> spell_long(const std::string& word) {
    std::size_t equals = word.find('=');
    std::string typed = word.substr(0, equals);
    auto found = look_up(typed.substr(2), typed, called_);
    if (!found) return found.error();
    const Flag& row = **found;
    out_.words.push_back(spelled(row));
    out_.flags.push_back({row.id, typed});
    bool has_value = equals != std::string::npos;
    if (has_value && row.is_switch()) return spell_choice(row, word.substr(equals + 1), word);
    if (!row.is_switch()) spell_value(has_value ? std::optional(word.substr(equals + 1)) : std::nullopt);
    return {};
  }

  // --help=all: a switch that may say more.
  Result<void> spell_choice(const Flag& row, std::string value, const std::string& word) {
    TypedFlag& flag = out_.flags.back();
    if (row.choices.empty()) return usage_error(fmt::format("{} takes no value ({})", flag.typed, printable(word)));
    if (auto fine = one_of(value, split(row.choices, ',')); !fine)
      return fine.error().in(fmt::format("{} '{}'", flag.typed, printable(value)));
    flag.chosen = std::move(value);
    return {};
  }

  // -m, -t3, -t=3, -t 3, and switches in front: -mt3.
  Result<void> spell_letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Flag* row = find_letter(word[i]);
      if (row == nullptr) return unknown_letter(word);
      out_.flags.push_back({row->id, {'-', word[i]}});
      if (row->is_switch()) continue;
      out_.words.push_back(word.substr(0, i + 1));
      std::string value = word.substr(i + 1);
      if (value.empty())
        spell_value({});
      else
        spell_value(value[0] == '=' ? value.substr(1) : value);
      return {};
    }
    out_.words.push_back(word);
    return {};
  }

  Error unknown_letter(const std::string& word) const {
    if (counts_workers(word))
      return usage_error(fmt::format("unknown flag {}; did you mean --nproc?", printable(word)));
    return usage_error(fmt::format("unknown flag {}; `{}` lists them", printable(word), lists_flags(called_)));
  }

  // The value of the flag that was just written: the one in its word, else the next word.
  void spell_value(std::optional<std::string> same_word) {
    if (same_word) {
      out_.words.push_back(std::move(*same_word));
    } else if (!rest_.empty() && !looks_like_flag(rest_[0], called_)) {
      out_.words.push_back(rest_[0]);
      rest_ = rest_.subspan(1);
    } else {
      rest_ = {};
    }
  }

  std::span<const std::string> rest_;  // not yet spelled out
  CalledAs called_;
  Spelled out_;
};

}  // namespace

Result<Spelled> spell_out(std::span<const std::string> words, CalledAs called) { return Speller(words, called).run(); }

}  // namespace dtrain::cli
