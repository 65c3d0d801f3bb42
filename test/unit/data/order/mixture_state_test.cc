// The state of a mixture as a text.
#include "data/order/mixture_state.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::data;

namespace {

std::vector<SourceCount> counted(std::vector<double> weights, std::int64_t rows) {
  std::vector<SourceCount> counts;
  const auto parts = weight_parts(weights);
  for (const std::int64_t part : *parts) counts.push_back({.weight = part});
  MixtureOrder order(1, 0, std::vector<std::int64_t>(weights.size(), 1), MixtureEnd::never, counts);
  order.take(rows);
  return order.counts();
}

}  // namespace

TEST_CASE("a mixture's state is the same after it was a text") {
  for (const std::int64_t rows : {0, 1, 7, 1000, 100'000}) {
    MixtureState state{3, UINT64_MAX, 17, counted({0.7, 0.2, 0.1}, rows)};
    CHECK(mixture_state(to_text(state)) == state);
    set_weights(state.counts, weight_parts(std::vector<double>{1, 0, 5}).value());
    CHECK(mixture_state(to_text(state)) == state);
  }
  CHECK(to_text({3, 0xAB, 0xCD, counted({3, 1}, 4096)}) == "mix1-3-ab-cd-c00.c0000000-400.40000000");
}

TEST_CASE("a state takes 62 bytes and few for each source") {
  MixtureState state{UINT64_MAX, UINT64_MAX, UINT64_MAX, counted(std::vector<double>(20, 0.31), 1 << 20)};
  const std::size_t begin = 4 + 3 * 17;
  CHECK(to_text(state).size() <= begin + 20 * 16);
  for (SourceCount& one : state.counts) one.taken = std::int64_t{1} << 40;
  std::vector<double> weights(20, 1);
  weights[7] = 2;
  set_weights(state.counts, weight_parts(weights).value());
  CHECK(to_text(state).size() <= begin + 20 * 31);
  CHECK(mixture_state(to_text(state)) == state);
}

// A state of that many rows is one of products that do not fit into 64 bits.
TEST_CASE("what a source still has to get follows from counts of any size") {
  MixtureState state{.counts = counted({0.5, 0.25, 0.25}, 2)};
  const std::int64_t more = std::int64_t{1} << 45;
  state.counts[0].taken += 2 * more;
  state.counts[1].taken += more;
  state.counts[2].taken += more;
  CHECK(to_text(state).find('.', to_text(state).rfind('.') + 1) == std::string::npos);
  CHECK(mixture_state(to_text(state)) == state);
}

TEST_CASE("what is no state of a mixture is none") {
  REQUIRE(mixture_state("mix1-0-1-2-0.c0000000-0.40000000"));
  REQUIRE(mixture_state("mix1-0-1-2-0.c0000000.2-0.40000000.1"));
  for (const char* text :
       {"", "mix1", "mix1-0-1-2", "mix1-0-1-2-", "mix1-0-1-2-0", "mix1-0-1-2-0.c0000000", "mix2-0-1-2-0.100000000",
        "mix1-0-1-2-0.c0000000-0.40000001", "mix1-0-1-2-0.c0000000-0.40000000 ", "mix1-0-1-2-0.c0000000.2-0.40000000",
        "mix1-0-1-2-0.c0000000.2-0.40000000.2", "mix1-0-1-2-0.100000000-0.0.", "mix1-0-1-2-0.100000000.1-0.0.2",
        "mix1-0-1-2-ffffffffffffffff.c0000000-0.40000000", "mix1-0-1-2-0.ffffffffc0000000-0.140000000",
        "mix1-0-1-2-5.c0000000.fffffffffffffffe-0.40000000.ffffffffffffffff", "rows1-1-2-3-4-5",
        "mix1-0-1-2-2000000000000.c0000000-0.40000000"}) {
    INFO(text);
    CHECK_FALSE(mixture_state(text));
  }
}
