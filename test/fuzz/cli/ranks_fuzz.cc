// Fuzzes lists of ranks and stream maps: what is accepted holds the ranks that were named and no others, and written
// out it is accepted and the same again; a range costs nothing, however long it is.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;
using launcher::RankSet;
using launcher::StreamMap;
using launcher::Streams;

namespace {

// Whether an accepted list names this rank; "5-7" one by one.
bool names(const std::string& list, int rank) {
  for (const std::string& part : split(list, ',')) {
    const std::size_t dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    if (first <= rank && rank <= last) return true;
  }
  return false;
}

void check_ranks(const std::string& text, int highest) {
  const auto ranks = parse_ranks(text, highest);
  if (!ranks) return check_one_line(ranks.error().message);
  DT_CHECK(!ranks->empty() && !ranks->contains(-1) && !ranks->contains(highest + 1),
           "ranks there are, within the limit");
  std::set<int> probes = {0, highest};
  for (const std::string& end : split(text, ','))
    for (const std::string& number : split(end, '-'))
      for (const int near : {-1, 0, 1}) probes.insert(std::atoi(number.c_str()) + near);
  for (const int rank : probes)
    DT_CHECK(ranks->contains(rank) == names(text, rank), "exactly the ranks that were named");

  const auto again = parse_ranks(ranks->text(), highest);
  DT_CHECK(again.ok() && again->text() == ranks->text(), "written and read again it is the same");
}

std::string written(const StreamMap& map) {
  if (map.by_local_rank.empty()) return std::to_string(static_cast<unsigned>(map.everywhere));
  std::string text;
  for (const auto& [rank, streams] : map.by_local_rank)
    text += (text.empty() ? "" : ",") + std::to_string(rank) + ":" + std::to_string(static_cast<unsigned>(streams));
  return text;
}

void check_streams(const std::string& text, int workers) {
  const auto strict = parse_streams(text, workers, OddRanks::refused);
  const auto lax = parse_streams(text, workers, OddRanks::as_torchrun);
  if (!strict) check_one_line(strict.error().message);
  if (!lax) {
    check_one_line(lax.error().message);
    DT_CHECK(!strict.ok(), "torchrun's way refuses no more than ours");
    return;
  }
  for (const auto& [rank, streams] : lax->by_local_rank)
    DT_CHECK(rank >= 0 && rank < workers && streams <= Streams::all, "workers that exist");
  DT_CHECK(!strict.ok() || written(*strict) == written(*lax), "where both accept it, it means the same");
  const auto again = parse_streams(written(*lax), workers, OddRanks::refused);
  DT_CHECK(again.ok() && written(*again) == written(*lax), "written and read again it is the same");
}

}  // namespace

// Byte 0: how many workers there are; the rest: the value.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const int workers = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_ranks(text, workers - 1);
  check_ranks(text, kMostRank);
  check_streams(text, workers);
  return 0;
}
