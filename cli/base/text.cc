// Helpers for messages.
#include "cli/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::cli {
namespace {

// Edits, and swaps of neighbours, that turn a into b (restricted Damerau-Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string closest(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 64;  // nobody mistypes a name this long, and the search is quadratic
  if (typed.empty() || typed.size() > kLongest) return "";
  std::string dashed(typed);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, dashed.size() / 3) + 1;
  for (const std::string& name : names) {
    std::string plain = name;
    std::replace(plain.begin(), plain.end(), '_', '-');
    std::size_t d = distance(dashed, plain);
    if (d < best_distance && d < plain.size()) {
      best = name;
      best_distance = d;
    }
  }
  return best;
}

std::string only_with_word(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t kShortest = 3;
  if (typed.size() < kShortest) return "";
  std::string found;
  for (const std::string& name : names) {
    const std::vector<std::string> words = split(name, '-');
    if (std::none_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(typed); }))
      continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

Result<void> one_of(std::string_view typed, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (name == typed) return {};
    list += (list.empty() ? "" : ", ") + name;
  }
  std::string near = closest(typed, names);
  std::string guess = near.empty() ? "" : fmt::format("; did you mean {}?", near);
  return Error{ErrorKind::usage, fmt::format("expected {}{}{}", names.size() == 1 ? "" : "one of ", list, guess)};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

std::string upper(std::string_view text) {
  std::string out;
  for (char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (char c : text) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string sentence(std::string_view text) {
  return upper(text.substr(0, 1)) + std::string(text.empty() ? text : text.substr(1)) + ".";
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool has_control_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace dtrain::cli
