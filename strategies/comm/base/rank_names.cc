// See rank_names.h.
#include "strategies/comm/base/rank_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "dtrain/errors.h"

namespace dtrain {
namespace {

constexpr const char* kWord = "rank ";
constexpr const char* kOurs = "dtrain: ";
constexpr std::size_t kShown = 8;

std::string with_group(const std::string& text, const RankNames& names) {
  const std::size_t skip = text.starts_with(kOurs) ? std::strlen(kOurs) : 0;
  return text.substr(0, skip) + names.prefix() + renamed(text.substr(skip), names);
}

}  // namespace

int RankNames::of(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  return place < ranks.size() ? ranks[place] : rank;
}

std::string RankNames::prefix() const {
  return ranks.empty() ? "" : fmt::format("group '{}' (ranks {}): ", group, text_of(ranks));
}

std::string text_of(const std::vector<int>& ranks) {
  const auto shown = std::span(ranks).first(std::min(ranks.size(), kShown));
  const std::string rest = ranks.size() > kShown ? fmt::format(", ... ({} ranks)", ranks.size()) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), rest);
}

std::string renamed(const std::string& text, const RankNames& names) {
  std::string result;
  const char* const end = text.data() + text.size();
  std::size_t done = 0;
  for (std::size_t at = text.find(kWord); at != std::string::npos; at = text.find(kWord, at + 1)) {
    const std::size_t number = at + std::strlen(kWord);
    std::size_t rank = 0;
    const auto [rest, status] = std::from_chars(text.data() + number, end, rank);
    if (status != std::errc() || rank >= names.ranks.size()) continue;
    result += text.substr(done, number - done) + std::to_string(names.ranks[rank]);
    done = static_cast<std::size_t>(rest - text.data());
  }
  return result + text.substr(done);
}

std::exception_ptr renamed(const std::exception_ptr& error, const RankNames& names) {
  if (names.ranks.empty()) return error;
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveError& failure) {
    return std::make_exception_ptr(
        CollectiveError(failure.kind(), names.of(failure.rank()), with_group(failure.what(), names)));
  } catch (const std::runtime_error& failure) {
    return std::make_exception_ptr(std::runtime_error(with_group(failure.what(), names)));
  } catch (...) {
    return error;
  }
}

}  // namespace dtrain
