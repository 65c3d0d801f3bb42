// Parsers of flag values.
#include "cli/base/parse_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "rendezvous/base/signal_name.h"

namespace dtrain::cli {
namespace {

// Signals that a process cannot catch, or that dtrain itself lives by.
bool reserved(int signal) {
  constexpr int kReserved[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU};
  return std::find(std::begin(kReserved), std::end(kReserved), signal) != std::end(kReserved);
}

std::string without_sig(std::string_view name) {
  std::string out = upper(name);
  return out.starts_with("SIG") ? out.substr(3) : out;
}

std::vector<std::string> signal_names() {
  std::vector<std::string> names;
  for (int n = 1; n < SIGRTMIN; ++n)
    if (const char* name = signal_abbreviation(n); name != nullptr && !reserved(n)) names.emplace_back(name);
  return names;
}

Result<int> parse_signal(const std::string& text) {
  if (all_digits(text)) {
    auto number = parse_number(text, 1, SIGRTMAX);
    if (!number) return usage_error(fmt::format("there is no signal {}", printable(text)));
    return number;
  }
  std::string plain = without_sig(text);
  for (int n = 1; n < SIGRTMIN; ++n) {
    const char* name = signal_abbreviation(n);
    if (name != nullptr && plain == name) return n;
  }
  std::string near = closest(plain, signal_names());
  if (!near.empty()) return usage_error(fmt::format("there is no signal {}; did you mean {}?", printable(text), near));
  return usage_error(fmt::format("there is no signal '{}'; `kill -l` lists them", printable(text)));
}

Result<launcher::Streams> parse_stream(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '3') return static_cast<launcher::Streams>(text[0] - '0');
  return usage_error("expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:0..3 separated by commas");
}

struct RankRange {
  int first;
  int last;
};

// "5" or "5-7".
std::optional<RankRange> parse_range(std::string_view text) {
  std::size_t dash = text.find('-');
  auto first = parse_number(text.substr(0, dash), 0, kMostRank);
  auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1), 0, kMostRank);
  if (!first || !last || *first > *last) return std::nullopt;
  return RankRange{*first, *last};
}

struct PythonInt {
  bool negative;
  std::string digits;  // no leading zeros
};

std::optional<PythonInt> python_int(std::string_view text) {
  const std::string number = trimmed(text);
  text = number;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  for (const std::string& part : split(text, '_')) {
    if (!all_digits(part)) return std::nullopt;
    digits += part;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return PythonInt{negative, digits};
}

Error no_such_rank(const char* kind, int rank, int highest) {
  if (highest == 0) return usage_error(fmt::format("there is no {} {}, only 0", kind, rank));
  return usage_error(fmt::format("there is no {} {}: they go from 0 to {}", kind, rank, highest));
}

}  // namespace

Result<int> parse_number(std::string_view text, int lowest, int highest) {
  int number = 0;
  if (all_digits(text)) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= lowest && number <= highest)
      return number;
  }
  return usage_error(fmt::format("expected a whole number from {} to {}", lowest, highest));
}

Result<double> parse_python_float(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string number = trimmed(text);
  // An underscore may stand between two digits.
  for (std::size_t i = 1; i + 1 < number.size(); ++i)
    if (number[i] == '_' && digit(number[i - 1]) && digit(number[i + 1])) number.erase(i, 1);
  // strtod takes more: names and hexadecimal digits. (std::from_chars brings in libm, which slows each start.)
  if (number.empty() || number.find_first_not_of("0123456789.eE+-") != std::string::npos)
    return usage_error("expected a number");
  char* stop = nullptr;
  const double value = std::strtod(number.c_str(), &stop);
  if (stop != number.c_str() + number.size() || std::isinf(value)) return usage_error("expected a number");
  return value;
}

Result<int> parse_python_int(std::string_view text, int lowest, int highest) {
  const auto number = python_int(text);
  if (!number || (number->negative && number->digits != "0")) return parse_number("", lowest, highest);
  return parse_number(number->digits, lowest, highest);
}

bool is_python_int(std::string_view text) { return python_int(text).has_value(); }

Result<std::chrono::milliseconds> parse_seconds(std::string_view text) {
  constexpr int kYear = 365 * 24 * 3600;
  std::size_t dot = text.find('.');
  auto whole = parse_number(text.substr(0, dot), 0, kYear);
  std::string fraction = dot == std::string_view::npos ? "0" : std::string(text.substr(dot + 1));
  if (!whole || !all_digits(fraction)) return usage_error(fmt::format("expected seconds from 0 to {}", kYear));
  fraction.resize(3, '0');
  return std::chrono::seconds(*whole) + std::chrono::milliseconds(*parse_number(fraction, 0, 999));
}

Result<bool> parse_switch(std::string_view text) {
  for (std::string_view yes : {"true", "yes", "on"})
    if (text == yes) return true;
  for (std::string_view no : {"false", "no", "off"})
    if (text == no) return false;
  auto number = parse_python_int(text, 0, 1000000);
  if (!number) return usage_error("expected 0 or 1");
  return *number != 0;
}

Result<launcher::RankSet> parse_ranks(std::string_view text, int highest) {
  launcher::RankSet ranks;
  for (const std::string& part : split(text, ',')) {
    auto range = parse_range(trimmed(part));
    if (!range) return usage_error("expected ranks and ranges of ranks such as 0,5-7");
    if (range->last > highest) return no_such_rank("rank", std::max(range->first, highest + 1), highest);
    ranks.add(range->first, range->last);
  }
  return ranks;
}

Result<launcher::StreamMap> parse_streams(std::string_view text, int workers, OddRanks odd) {
  const bool refused = odd == OddRanks::refused;
  launcher::StreamMap map;
  if (text.find(':') == std::string_view::npos) {
    auto streams = parse_stream(text);
    if (!streams) return streams.error();
    map.everywhere = *streams;
    return map;
  }
  for (const std::string& part : split(text, ',')) {
    std::size_t colon = part.find(':');
    auto range = parse_range(std::string_view(part).substr(0, colon));
    auto streams = parse_stream(colon == std::string::npos ? "" : std::string_view(part).substr(colon + 1));
    if (!range || !streams) return parse_stream("").error();
    if (refused && range->last >= workers)
      return no_such_rank("local rank", std::max(range->first, workers), workers - 1);
    for (int rank = range->first; rank <= std::min(range->last, workers - 1); ++rank) {
      bool fresh = map.by_local_rank.insert_or_assign(rank, *streams).second;
      if (refused && !fresh) return usage_error(fmt::format("local rank {} is named twice", rank));
    }
  }
  return map;
}

std::vector<std::string> parse_texts(std::string_view text) {
  std::vector<std::string> texts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      texts.back() += text[i];
    } else if (text.substr(i + 1, 1) == ",") {
      texts.back() += text[i++];
    } else {
      texts.emplace_back();
    }
  }
  std::erase(texts, "");
  return texts;
}

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  if (text.empty() || text == "none") return signals;
  for (const std::string& part : split(text, ',')) {
    auto signal = parse_signal(trimmed(part));
    if (!signal) return signal.error();
    if (reserved(*signal)) return usage_error(fmt::format("SIG{} cannot be chosen", signal_abbreviation(*signal)));
    if (std::find(signals.begin(), signals.end(), *signal) == signals.end()) signals.push_back(*signal);
  }
  return signals;
}

std::vector<std::string> unknown_signals(std::string_view text) {
  std::vector<std::string> unknown;
  if (text.empty() || text == "none") return unknown;
  for (const std::string& part : split(text, ','))
    if (std::string name = trimmed(part); !parse_signal(name)) unknown.push_back(std::move(name));
  return unknown;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 9> kUnits{{{"", 1},
                                                                                     {"B", 1},
                                                                                     {"KB", 1000},
                                                                                     {"MB", 1000'000},
                                                                                     {"GB", 1000'000'000},
                                                                                     {"TB", 1000'000'000'000},
                                                                                     {"KiB", 1ULL << 10},
                                                                                     {"MiB", 1ULL << 20},
                                                                                     {"GiB", 1ULL << 30}}};
  std::uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, bytes] : kUnits) {
    std::uint64_t size = 0;
    if (status == std::errc() && unit == name && !__builtin_mul_overflow(number, bytes, &size) && size != 0 &&
        size < 1ULL << 62)
      return size;
  }
  return usage_error("expected a size such as 5GB, 300MiB or 1000000");
}

}  // namespace dtrain::cli
