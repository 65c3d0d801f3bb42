// Times at the beginning of lines.
#include "cli/logs/logs_lines.h"

#include <ctime>

namespace dtrain::cli {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Reads a time from left to right; what does not fit makes all that follows fail.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  int number(std::size_t digits) {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (at_ == text_.size() || !digit(text_[at_])) return fail();
      value = value * 10 + (text_[at_++] - '0');
    }
    return value;
  }
  void expect(std::string_view any_of) {
    if (!skip(any_of)) fail();
  }
  bool skip(std::string_view any_of) {
    const bool there = at_ < text_.size() && any_of.find(text_[at_]) != std::string_view::npos;
    at_ += there ? 1 : 0;
    return there;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : 0; }
  bool fine() const { return fine_; }

  int milliseconds() {
    int value = 0, digits = 0;
    for (; digit(peek()); ++at_, ++digits)
      if (digits < 3) value = value * 10 + (peek() - '0');
    if (digits == 0) return fail();
    for (; digits < 3; ++digits) value *= 10;
    return value;
  }

 private:
  int fail() {
    fine_ = false;
    return 0;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  bool fine_ = true;
};

// Seconds east of Greenwich; nothing: local time.
std::optional<int> zone(Scanner& scan) {
  if (scan.skip("Z")) return 0;
  const int sign = scan.peek() == '-' ? -1 : 1;
  if (!scan.skip("+-")) return std::nullopt;
  const int hours = scan.number(2);
  scan.skip(":");
  return sign * (hours * 3600 + scan.number(2) * 60);
}

}  // namespace

std::optional<int64_t> line_time(std::string_view line) {
  Scanner scan(line);
  std::tm parts{};
  parts.tm_year = scan.number(4) - 1900;
  scan.expect("-");
  parts.tm_mon = scan.number(2) - 1;
  scan.expect("-");
  parts.tm_mday = scan.number(2);
  scan.expect("T ");
  parts.tm_hour = scan.number(2);
  scan.expect(":");
  parts.tm_min = scan.number(2);
  scan.expect(":");
  parts.tm_sec = scan.number(2);
  if (!scan.fine() || parts.tm_mon < 0 || parts.tm_mon > 11 || parts.tm_mday < 1 || parts.tm_mday > 31 ||
      parts.tm_hour > 23 || parts.tm_min > 59 || parts.tm_sec > 60)
    return std::nullopt;
  const int fraction = scan.skip(".,") ? scan.milliseconds() : 0;
  const auto east = zone(scan);
  if (!scan.fine()) return std::nullopt;
  parts.tm_isdst = -1;
  const std::time_t seconds = east ? ::timegm(&parts) - *east : ::mktime(&parts);
  return int64_t{seconds} * 1000 + fraction;
}

bool carries_times(std::string_view beginning) {
  while (!beginning.empty()) {
    if (line_time(beginning)) return true;
    const std::size_t end = beginning.find('\n');
    beginning.remove_prefix(end == std::string_view::npos ? beginning.size() : end + 1);
  }
  return false;
}

}  // namespace dtrain::cli
