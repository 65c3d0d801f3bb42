#pragma once
// The negotiations of several ranks, in one place.
#include <algorithm>
#include <random>

#include "strategies/horovod/fusion_plan.h"
#include "strategies/horovod/negotiation_core.h"

namespace dtrain::hvd::test {

inline Request wants(const std::string& name, std::vector<std::int64_t> shape = {4}, const std::string& type = "Float",
                     const std::string& op = "average") {
  std::int64_t bytes = 4;
  for (const std::int64_t size : shape) bytes *= size;
  return {name, type, "cpu", std::move(shape), bytes, op};
}

inline Request in_group(const std::string& name, const std::string& group, std::int64_t members) {
  Request request = wants(name);
  request.group = group;
  request.members = members;
  return request;
}

inline std::vector<std::string> names(const std::vector<Request>& requests) {
  std::vector<std::string> all;
  for (const Request& request : requests) all.push_back(request.name);
  return all;
}

using Outcome = Negotiation::Outcome;

struct Ranks {
  explicit Ranks(int count, const Negotiation::Limits& limits = {}, const RankNames& known = {}) {
    for (int r = 0; r < count; ++r) all.emplace_back(r, count, limits, known);
  }

  Negotiation& operator[](int rank) { return all[static_cast<std::size_t>(rank)]; }
  void submit(int rank, const Request& request) { (*this)[rank].submit(request, now); }
  void submit_all(const Request& request) {
    for (Negotiation& each : all) each.submit(request, now);
  }

  // The outcome of each rank.
  std::vector<Outcome> cycle() {
    std::vector<std::uint64_t> agreed;
    for (Negotiation& each : all) {
      const std::vector<std::uint64_t> words = each.words(now);
      if (agreed.empty()) agreed.assign(words.size(), ~std::uint64_t{0});
      same = same && agreed.size() == words.size();
      for (std::size_t i = 0; i < std::min(agreed.size(), words.size()); ++i) agreed[i] &= words[i];
    }
    int asking = 0;
    for (Negotiation& each : all) asking += each.absorb_words(agreed) ? 1 : 0;
    same = same && (asking == 0 || asking == static_cast<int>(all.size()));
    if (asking > 0) {
      ++exchanges;
      std::vector<std::vector<Asked>> asked;
      for (Negotiation& each : all) asked.push_back(parse_requests(serialize(each.requests())));
      for (Negotiation& each : all) each.absorb_requests(asked);
    }
    std::vector<Outcome> outcomes;
    for (Negotiation& each : all) outcomes.push_back(each.outcome());
    for (const Outcome& each : outcomes) {
      const std::string text = each.failure ? each.failure->what() : "";
      same = same && each.ready == outcomes[0].ready && each.left == outcomes[0].left &&
             each.all_joined == outcomes[0].all_joined &&
             text == (outcomes[0].failure ? outcomes[0].failure->what() : "");
    }
    return outcomes;
  }

  std::vector<std::string> ready() { return names(cycle()[0].ready); }

  std::vector<Negotiation> all;
  Negotiation::Moment now{std::chrono::hours{1}};
  bool same = true;  // every rank drew the same from every cycle
  int exchanges = 0;
};

}  // namespace dtrain::hvd::test
