// Metrics over ranks, and the random numbers of steps.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/support/error_of.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::string texts_of(const std::map<std::string, double>& all) {
  std::string text;
  for (const auto& [name, value] : all) text += fmt::format("{}={} ", name, value);
  return text;
}

using Body = std::function<std::string(Session&)>;
std::vector<std::string> said_by(int ranks, const Body& body) { return on_ranks(ranks, body); }

std::string refusal(const std::function<void()>& call) { return error_of<ConfigError>(call, "none"); }

}  // namespace

TEST_CASE("metrics are those of all ranks' rows") {
  const auto said = said_by(3, [](Session& session) {
    const int rank = session.rank();
    Metrics metrics(session.world());
    // Rank r has r + 1 rows of the value 10 r, twice.
    for (int batch = 0; batch < 2; ++batch) metrics.mean("loss", torch::full({1}, 10.0 * rank), rank + 1);
    metrics.mean("never", torch::ones({}), 0);
    metrics.sum("right", torch::tensor(rank + 1));
    metrics.sum("right", 1);
    metrics.min("least", 5 - rank);
    metrics.max("most", rank == 1 ? 0.1 : -rank);
    if (rank == 2) metrics.max("only here", 7);
    std::string text = texts_of(metrics.reduce()) + "| ";
    metrics.sum("right", 1);  // anew
    text += texts_of(metrics.reduce()) + "|";
    return text + texts_of(metrics.reduce());
  });
  // (0 * 1 + 10 * 2 + 20 * 3) / 6
  for (const std::string& each : said)
    CHECK(each == fmt::format("least=3 loss={} most=0.1 only here=7 right=9 | right=3 |", 80.0 / 6));
}

TEST_CASE("metrics that are no numbers stay so, and what makes no sense is refused on all ranks") {
  const auto said = said_by(2, [](Session& session) {
    Metrics metrics(session.world());
    metrics.max("a", session.rank() == 0 ? std::nan("") : 1.0);
    metrics.min("b", session.rank() == 0 ? std::nan("") : 1.0);
    metrics.sum("c", session.is_first() ? 1.0 / 0.0 : 0.0);
    std::string text = texts_of(metrics.reduce());
    text += refusal([&] { metrics.mean("d", torch::ones({2})); }) + "|";
    text += refusal([&] { metrics.mean("d", 1, -1); }) + "|";
    metrics.mean("d", 1);
    text += refusal([&] { metrics.sum("d", 1); }) + "|";
    metrics.reduce();
    if (session.is_first()) metrics.sum("e", 1);
    if (!session.is_first()) metrics.max("e", 1);
    text += refusal([&] { metrics.reduce(); });
    return text;
  });
  for (const std::string& each : said)
    CHECK(each ==
          "a=nan b=nan c=inf dtrain: the metric d is no number, nor a tensor of one element|dtrain: the metric d has "
          "the weight -1; it is 0 or more|dtrain: the metric d is both a mean and a sum|dtrain: the metric e is both a "
          "sum and a max");
}

TEST_CASE("the random numbers of a step depend on the seed, the step and the rank alone") {
  const auto numbers = [](Session& session) {
    std::string text;
    for (const int step : {7, 8, 7}) {
      seed_step(session, 42, step);
      text += fmt::format("{} ", torch::rand({}).item<double>());
    }
    torch::rand({100});  // what a run did before it was killed
    seed_step(session, 42, 8);
    text += fmt::format("{} ", torch::rand({}).item<double>());
    seed_step(session, 43, 8);
    return text + fmt::format("{}", torch::rand({}).item<double>());
  };
  const auto said = said_by(2, numbers);
  std::set<std::string> all;
  for (const std::string& each : said) {
    std::istringstream words(each);
    const std::vector<std::string> of_rank{std::istream_iterator<std::string>(words), {}};
    CHECK(of_rank.at(0) == of_rank.at(2));
    CHECK(of_rank.at(1) == of_rank.at(3));
    all.insert(of_rank.begin(), of_rank.end());
  }
  CHECK(all.size() == 6);
}
