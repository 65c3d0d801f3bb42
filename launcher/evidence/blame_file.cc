#include "launcher/evidence/blame_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "launcher/base/small_file.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLimit = 4096;      // of the file, in bytes
constexpr std::size_t kWhatLimit = 200;   // of what the rank did
constexpr int kMostRank = (1 << 24) - 1;  // of a job

// How the text of dtrain's CollectiveError goes on after "rank 1 (pid 1234) ", and whether that rank then ends by
// itself.
struct Phrase {
  std::string_view text;
  bool ends;
};
constexpr Phrase kPhrases[] = {{"died", true},
                               {"left the job", true},
                               {"did not arrive in time", false},
                               {"made a call that does not fit", true},
                               {"aborted the group", true}};

constexpr std::string_view kDiverged = "dtrain::DivergedError: ";

// What gloo and NCCL say of a peer that has gone. "ncclRemoteError" is in the second line of NCCL's, and an exception
// is its first line.
constexpr std::string_view kPeerGone[] = {"Connection closed by peer", "Connection reset by peer",
                                          "Application timeout caused pair closure", "ncclRemoteError",
                                          "remote process exited or there was a network error"};
constexpr std::string_view kWhoSays[] = {"gloo", "nccl", "NCCL"};

bool has_one_of(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](auto word) { return text.find(word) != text.npos; });
}

bool is_rank(std::int64_t number) { return number >= 0 && number <= kMostRank; }

struct Named {
  int rank;
  std::string_view after;  // the text behind the number
};

// The rank that the text begins with.
std::optional<Named> named_rank(std::string_view text) {
  int rank = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, rank);
  if (status != std::errc() || !is_rank(rank)) return std::nullopt;
  return Named{rank, {rest, static_cast<std::size_t>(end - rest)}};
}

// The first rank of the text is the one that differs from the others.
Blame blame_of_diverged(std::string_view text) {
  constexpr std::string_view kRank = " rank ";
  const std::size_t at = text.find(kRank);
  const auto named = at == text.npos ? std::nullopt : named_rank(text.substr(at + kRank.size()));
  return named ? Blame{named->rank, true, "differs from the others"} : Blame{};
}

// `text`: from the rank on.
Blame blame_of_collective(std::string_view text) {
  const auto named = named_rank(text);
  const std::size_t closed = named ? named->after.find(") ") : text.npos;
  if (closed == text.npos || !named->after.starts_with(" (pid ")) return {};
  for (const auto& [words, ends] : kPhrases)
    if (named->after.substr(closed + 2).starts_with(words)) return {named->rank, ends, std::string(words)};
  return {};
}

}  // namespace

std::string blame_path(const std::string& round_folder, int rank) {
  return round_folder.empty() ? "" : fmt::format("{}/blame_rank{}.json", round_folder, rank);
}

std::optional<Blame> parse_blame(std::string_view text) {
  if (text.size() > kLimit) return std::nullopt;
  // Nothing in it is nested: brackets within brackets would cost the reader its stack.
  if (std::count(text.begin(), text.end(), '{') + std::count(text.begin(), text.end(), '[') > 8) return std::nullopt;
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return std::nullopt;
  const auto rank = root.find("because_of");
  if (rank == root.end() || !rank->is_number_integer()) return std::nullopt;
  const auto number = rank->get<std::int64_t>();
  if (!is_rank(number)) return std::nullopt;
  Blame blame;
  blame.rank = static_cast<int>(number);
  const auto ends = root.find("ends");
  blame.ends = ends == root.end() || !ends->is_boolean() || ends->get<bool>();
  const auto what = root.find("what");
  if (what != root.end() && what->is_string()) blame.what = printable(what->get<std::string>(), kWhatLimit);
  return blame;
}

Blame blame_in(std::string_view exception) {
  if (exception.starts_with(kDiverged)) return blame_of_diverged(exception.substr(kDiverged.size()));
  constexpr std::string_view kRank = ": rank ";
  const std::size_t at = exception.find("dtrain: ") == std::string_view::npos ? exception.npos : exception.find(kRank);
  if (at != exception.npos) return blame_of_collective(exception.substr(at + kRank.size()));
  const bool gone = has_one_of(exception, kPeerGone) && has_one_of(exception, kWhoSays);
  return gone ? Blame{Blame::kSomebody, true, {}} : Blame{};
}

Blame take_blame_file(const std::string& path) {
  if (path.empty()) return {};
  const auto text = read_regular_file(path, kLimit);
  if (text) ::unlink(path.c_str());
  return text ? parse_blame(*text).value_or(Blame{}) : Blame{};
}

}  // namespace dtrain::launcher
