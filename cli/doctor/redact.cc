// Each search marks the bytes to hide in the value as it was given, so that no search spoils another's.
#include "cli/doctor/redact.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kQuotes = "\"'`";
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

// Any name with one of these in it.
constexpr std::string_view kSecrets[] = {"TOKEN",  "SECRET", "KEY", "PASS", "CRED",    "AUTH",
                                         "BEARER", "COOKIE", "JWT", "PWD",  "PRIVATE", "SIGNATURE"};
constexpr std::string_view kTokens[] = {"hf_",         "sk-",    "ghp_",   "gho_",  "ghu_", "ghs_",      "ghr_",
                                        "github_pat_", "glpat-", "xoxb-",  "xoxp-", "AKIA", "ASIA",      "AIza",
                                        "npm_",        "pypi-",  "nvapi-", "eyJ",   "dapi", "wandb_v1_", "dtrain-"};

bool one_of_bytes(char c, std::string_view bytes) { return bytes.find(c) != kNone; }

bool secret_name(std::string_view name) {
  std::string whole = upper(name);
  if (whole == "PWD" || whole == "OLDPWD") return false;
  if (whole == "PW" || whole.ends_with("_PW") || whole.ends_with("-PW")) return true;
  return std::any_of(std::begin(kSecrets), std::end(kSecrets),
                     [&](std::string_view part) { return whole.find(part) != std::string::npos; });
}

class Redaction {
 public:
  explicit Redaction(std::string_view text) : text_(text), hidden_(text.size()) {}

  std::string run() {
    hide_users();
    hide_named();
    hide_tokens();
    return shown();
  }

 private:
  void hide(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, text_.size()); ++i) hidden_[i] = true;
  }

  std::size_t end_of_name(std::size_t at) const { return std::min(text_.find_first_not_of(kNameBytes, at), size()); }
  std::size_t size() const { return text_.size(); }

  bool escaped(std::size_t at) const {
    std::size_t slashes = 0;
    while (slashes < at && text_[at - slashes - 1] == '\\') ++slashes;
    return slashes % 2 == 1;
  }

  // Up to the last '@' before a blank: a password may have '@', '/' and ',' in it.
  void hide_users() {
    for (std::size_t begin = 0; begin < size();) {
      std::size_t end = std::min(text_.find_first_of(kBlanks, begin), size());
      std::string_view word = text_.substr(begin, end - begin);
      if (std::size_t sign = word.rfind('@'); sign != kNone) hide(begin + user_in(word.substr(0, sign)), begin + sign);
      begin = end + 1;
    }
  }

  // Where the user begins in what stands before an '@'; its end if it names no password and is in no URL.
  static std::size_t user_in(std::string_view word) {
    std::size_t colon = word.find(':');
    if (colon == kNone) return word.size();
    if (word.substr(colon).starts_with("://")) return colon + 3;
    std::size_t before = word.substr(0, colon).find_last_of("=,;/([{\"'`");
    return before == kNone ? 0 : before + 1;
  }

  void hide_named() {
    for (std::size_t i = 0; i < size();) {
      std::size_t end = end_of_name(i);
      i = end > i && secret_name(text_.substr(i, end - i)) ? hide_value(i, end) : std::max(end, i + 1);
    }
  }

  // The value that follows the name. What is hidden may be a name itself: `token: Bearer abc`, `--use-auth --token
  // abc`. Returns where to go on.
  std::size_t hide_value(std::size_t name, std::size_t end) {
    std::size_t begin = std::min(text_.find_first_not_of(" \t\r\n\v\f,:=>\\\"'`", end), size());
    if (begin == end || begin == size()) return std::max(begin, end);
    std::string header = upper(text_.substr(name, end - name));
    bool whole_line = header.find("AUTHORIZATION") != std::string::npos || header.find("COOKIE") != std::string::npos;
    if (whole_line || text_[begin] == '[' || text_[begin] == '{') {
      std::size_t stop = whole_line ? std::min(text_.find('\n', begin), size()) : size();
      hide(begin, stop);
      return stop;
    }
    std::size_t stop = end_of_value(begin);
    hide(std::max(begin, named_), stop);
    named_ = std::max(named_, stop);
    return begin;
  }

  std::size_t end_of_value(std::size_t begin) {
    if (!one_of_bytes(text_[begin - 1], kQuotes)) return end_of_word(begin);
    char quote = text_[begin - 1];
    std::size_t close = begin;
    while (close < size() && (text_[close] != quote || escaped(close) != escaped(begin - 1))) ++close;
    if (close == size()) return size();
    // To a shell, what touches the quote belongs to the word; brackets end a list.
    std::size_t end = end_of_word(close + 1);
    return text_.substr(close + 1, end - close - 1).find_first_not_of(")]}") == kNone ? close : end;
  }

  // `KEY:KEY:KEY:...` asks for the end of the same word each time.
  std::size_t end_of_word(std::size_t begin) {
    if (begin < word_.begin || begin > word_.end) word_ = {begin, scan_word(begin)};
    return word_.end;
  }

  std::size_t scan_word(std::size_t end) const {
    while (end < size() && !starts_another(end) && (!one_of_bytes(text_[end], kBlanks) || escaped(end))) ++end;
    return end;
  }

  // ",name=", "&name=", `,"name":`: the separator ends the value before. Else it is part of that.
  bool starts_another(std::size_t at) const {
    if (!one_of_bytes(text_[at], ",;&")) return false;
    std::size_t name = std::min(text_.find_first_not_of(" \t\"'", at + 1), size());
    std::size_t end = end_of_name(name);
    if (end == name || end == size()) return false;
    if (text_[end] == '=') return true;
    return one_of_bytes(text_[end], kQuotes) && end + 1 < size() && text_[end + 1] == ':';
  }

  void hide_tokens() {
    constexpr std::size_t kShortest = 8;   // after the prefix; so that "sk-learn" stays
    constexpr std::size_t kOwnToken = 40;  // log folders begin as dtrain's own tokens do
    for (std::size_t i = 0; i < size(); ++i) {
      if (i > 0 && one_of_bytes(text_[i - 1], kNameBytes.substr(0, kNameBytes.size() - 2))) continue;
      for (std::string_view prefix : kTokens) {
        if (!text_.substr(i).starts_with(prefix)) continue;
        std::size_t end = end_of_name(i);
        while (end < size() && text_[end] == '.') end = end_of_name(end + 1);  // eyJ...: three parts
        const std::size_t shortest = prefix == "dtrain-" ? kOwnToken : kShortest;
        if (end < i + prefix.size() + shortest) continue;
        hide(i, end);
        i = end - 1;
        break;
      }
    }
    if (std::size_t pem = text_.find("-----BEGIN"); pem != kNone) hide(pem, size());
  }

  std::string shown() const {
    std::string out;
    for (std::size_t i = 0; i < size(); ++i) {
      if (!hidden_[i])
        out += text_[i];
      else if (i == 0 || !hidden_[i - 1])
        out += "<redacted>";
    }
    return out;
  }

  std::string_view text_;
  std::vector<bool> hidden_;
  std::size_t named_ = 0;  // what hide_value() hid last ends here; it goes from the left to the right
  struct {
    std::size_t begin = 1, end = 0;
  } word_;  // that end_of_word() found last
};

bool list_of_folders(std::string_view name, std::string_view value) {
  return name.ends_with("PATH") && value.starts_with('/') && value.find("://") == kNone &&
         value.find_first_of(kBlanks) == kNone && value.find('=') == kNone;
}

}  // namespace

std::string redacted(std::string_view name, std::string_view value) {
  if (value.empty()) return "";
  if (secret_name(name)) return "<redacted>";
  if (list_of_folders(name, value)) return std::string(value);
  return Redaction(value).run();
}

}  // namespace dtrain::cli
