// Reads the list from left to right, name by name; a name is grown part by part.
#include "launcher/engines/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace dtrain::launcher {
namespace {

constexpr std::size_t kLongestName = 255;  // of a host in DNS
constexpr std::size_t kMostDigits = 18;    // a number that fits

Error bad(std::string_view what) { return {ErrorKind::usage, fmt::format("not a list of hosts: {}", what)}; }
Error too_many(std::size_t most) { return bad(fmt::format("more than {} names", most)); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Reader {
 public:
  Reader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  Result<std::vector<std::string>> run() {
    do {
      auto names = name();
      if (!names) return names.error();
      if (hosts_.size() + names->size() > most_) return too_many(most_);
      std::move(names->begin(), names->end(), std::back_inserter(hosts_));
    } while (take(','));
    return std::move(hosts_);
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Up to the next comma: plain text and brackets in turn.
  Result<std::vector<std::string>> name() {
    std::vector<std::string> names = {""};
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      auto parts = take('[') ? bracket() : plain();
      if (!parts) return parts;
      if (parts->size() > most_ / names.size()) return too_many(most_);
      std::vector<std::string> grown;
      grown.reserve(names.size() * parts->size());
      for (const std::string& head : names)
        for (const std::string& tail : *parts) grown.push_back(head + tail);
      names = std::move(grown);
      if (names.back().size() > kLongestName) return bad(fmt::format("a name of more than {} bytes", kLongestName));
    }
    if (at_ == begin) return bad("a name is empty");
    return names;
  }

  Result<std::vector<std::string>> plain() {
    const std::size_t end = std::min(text_.find_first_of(",[", at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    if (!std::all_of(part.begin(), part.end(), [](unsigned char c) { return c > ' ' && c < 0x7f && c != ']'; }))
      return bad("a blank, a control character or a lone ']' in a name");
    at_ = end;
    return std::vector<std::string>{std::string(part)};
  }

  // After the '[', to behind the ']'.
  Result<std::vector<std::string>> bracket() {
    std::vector<std::string> numbers;
    do {
      if (auto done = range(numbers); !done) return done.error();
    } while (take(','));
    if (!take(']')) return bad("']' is missing, or there is more than numbers before it");
    return numbers;
  }

  // "7" or "01-04".
  Result<void> range(std::vector<std::string>& numbers) {
    const std::string_view first = digits();
    const std::string_view last = take('-') ? digits() : first;
    if (first.empty() || last.empty()) return bad("a range needs numbers, as in [1-4,7]");
    if (first.size() > kMostDigits || last.size() > kMostDigits) return bad("a number is too long");
    const unsigned long long from = std::stoull(std::string(first)), to = std::stoull(std::string(last));
    if (to < from) return bad(fmt::format("the range {}-{} runs backwards", first, last));
    if (to - from >= most_ || numbers.size() + (to - from + 1) > most_) return too_many(most_);
    for (auto number = from; number <= to; ++number) numbers.push_back(fmt::format("{:0{}}", number, first.size()));
    return {};
  }

  std::string_view digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
  std::vector<std::string> hosts_;
};

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t most) {
  return Reader(text, most).run();
}

}  // namespace dtrain::launcher
