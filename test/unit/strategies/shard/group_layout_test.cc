// Where the parameters of a group lie, and whose they are.
#include "strategies/shard/group_layout.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::int64_t granule_of(const LaidOutParameter& each) {
  if (each.placement.kind == Placement::Kind::owned) return each.elements();
  return each.row * (each.placement.kind == Placement::Kind::blocks ? each.placement.rows : 1);
}

// What must hold of each layout.
void check_layout(const std::vector<LaidOutParameter>& parameters, const GroupLayout& layout, std::size_t ranks) {
  REQUIRE(layout.at.size() == parameters.size());
  REQUIRE(layout.bounds.size() == ranks + 1);
  CHECK(layout.bounds.front() == 0);
  CHECK(layout.bounds.back() == layout.elements);
  CHECK(std::is_sorted(layout.bounds.begin(), layout.bounds.end()));
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t begin = layout.at[i], end = begin + parameters[i].elements();
    CHECK(end <= layout.elements);
    places.emplace_back(begin, end);
    for (const std::int64_t bound : layout.bounds) {
      if (bound <= begin || bound >= end) continue;
      CHECK((bound - begin) % granule_of(parameters[i]) == 0);
    }
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i - 1].second <= places[i].first);
}

void check_balanced(const std::vector<std::int64_t>& bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  const double mean = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})) /
                      static_cast<double>(bytes.size());
  INFO(bytes.size() << " ranks: " << *least << " to " << *most);
  CHECK(static_cast<double>(*most) <= 1.05 * mean);
  CHECK(static_cast<double>(*least) >= 0.95 * mean);
}

std::vector<LaidOutParameter> block_of(std::int64_t d, Placement placement = {}) {
  return {{d, 1}, {d, 1}, {3 * d, d, placement}, {3 * d, 1}, {d, d, placement},     {d, 1},
          {d, 1}, {d, 1}, {4 * d, d, placement}, {4 * d, 1}, {d, 4 * d, placement}, {d, 1}};
}

}  // namespace

TEST_CASE("a transformer's block is divided into parts of one size") {
  for (const std::size_t ranks : {1, 2, 3, 4, 8}) {
    for (const std::int64_t d : {64, 128, 768}) {
      std::vector<std::int64_t> loads(ranks);
      const auto parameters = block_of(d);
      const GroupLayout layout = lay_out(parameters, 1, loads);
      INFO(ranks << " ranks, " << d);
      check_layout(parameters, layout, ranks);
      CHECK(layout.even());
      CHECK(layout.elements - (12 * d * d + 13 * d) <= 12 * d * d / 16);
    }
  }
}

TEST_CASE("layouts of any parameters keep rows and blocks together") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::int64_t high) {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(high));
    };
    const auto ranks = static_cast<std::size_t>(1 + below(6));
    std::vector<std::int64_t> loads(ranks);
    for (int group = 0; group < 3; ++group) {
      std::vector<LaidOutParameter> parameters;
      const bool owned = below(4) == 0;
      for (std::int64_t i = 1 + below(7); i > 0; --i) {
        LaidOutParameter each{below(12), below(3) == 0 ? 1 : 1 + below(9)};
        if (below(3) == 0) each.placement = Placement::blocks_of(1 + below(4));
        if (owned && below(2) == 0) each.placement = Placement::owned();
        parameters.push_back(each);
      }
      const auto before = loads;
      const std::int64_t element_bytes = 1 + below(8);
      const GroupLayout layout = lay_out(parameters, element_bytes, loads);
      INFO("seed " << seed);
      check_layout(parameters, layout, ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        CHECK(loads[r] - before[r] == element_bytes * layout.size(static_cast<int>(r)));
    }
  }
}

TEST_CASE("where rows are large, parts differ by a row at most") {
  std::vector<std::int64_t> loads(4);
  const std::vector<LaidOutParameter> parameters{{5, 1000}};
  const GroupLayout layout = lay_out(parameters, 1, loads);
  check_layout(parameters, layout, 4);
  CHECK_FALSE(layout.even());
  CHECK(layout.elements == 5000);
  for (int r = 0; r < 4; ++r) CHECK((layout.size(r) == 1000 || layout.size(r) == 2000));
}

TEST_CASE("owned matrices of a whole model are balanced within five per cent") {
  for (const std::size_t ranks : {2, 3, 4, 8}) {
    std::vector<std::int64_t> loads(ranks);
    for (int block = 0; block < 24; ++block) {
      const auto parameters = block_of(128, Placement::owned());
      const GroupLayout layout = lay_out(parameters, 1, loads);
      check_layout(parameters, layout, ranks);
    }
    check_balanced(loads);
  }
}

TEST_CASE("blocks of different sizes and types are balanced by their bytes") {
  for (const std::size_t ranks : {2, 3, 4, 8}) {
    std::vector<std::int64_t> loads(ranks), bytes(ranks);
    for (int block = 0; block < 24; ++block) {
      const std::int64_t element_bytes = block % 3 == 0 ? 4 : 2;
      const GroupLayout layout = lay_out(block_of(64 + 32 * (block * 5 % 8), Placement::owned()), element_bytes, loads);
      for (std::size_t r = 0; r < ranks; ++r) bytes[r] += layout.size(static_cast<int>(r)) * element_bytes;
    }
    CHECK(loads == bytes);
    check_balanced(bytes);
  }
}
