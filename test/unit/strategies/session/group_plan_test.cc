// Who is in which group, and what its errors call the ranks.
#include "strategies/session/group_plan.h"

#include "dtrain/errors.h"
#include "dtrain/mesh_layout.h"
#include "strategies/comm/base/rank_names.h"
#include "test/support/catch.h"

using namespace dtrain;
using Ranks = std::vector<int>;

namespace {

std::string refusal(const std::vector<MeshDimension>& dimensions, int world_size) {
  try {
    const MeshLayout layout(dimensions, world_size);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& found) {
    return found.what();
  }
}

}  // namespace

TEST_CASE("a mesh lays ranks out in rows") {
  const MeshLayout mesh({{"replicate", 2}, {"shard", 3}}, 6);
  CHECK(mesh.coordinates(0) == std::vector<int>{0, 0});
  CHECK(mesh.coordinates(4) == std::vector<int>{1, 1});
  CHECK(mesh.line("shard", 4) == Ranks{3, 4, 5});
  CHECK(mesh.line("replicate", 4) == Ranks{1, 4});
  CHECK(mesh.size("shard") == 3);
  CHECK(mesh.axis("shard") == 1);
}

TEST_CASE("places and ranks of a mesh of three dimensions, there and back") {
  const MeshLayout mesh({{"a", 3}, {"b", 1}, {"c", 4}}, 12);
  for (int rank = 0; rank < 12; ++rank) {
    CHECK(mesh.rank_at(mesh.coordinates(rank)) == rank);
    CHECK(mesh.line("b", rank) == Ranks{rank});
    for (const char* name : {"a", "c"}) {
      const Ranks line = mesh.line(name, rank);
      CHECK(line.at(static_cast<std::size_t>(mesh.coordinates(rank)[mesh.axis(name)])) == rank);
      for (const int other : line) CHECK(mesh.line(name, other) == line);
    }
  }
}

TEST_CASE("what is no mesh is refused with a line that says why") {
  CHECK_THAT(refusal({}, 4), Catch::Contains("needs a dimension"));
  CHECK_THAT(refusal({{"a", 2}, {"a", 2}}, 4),
             Catch::Contains("mesh a 2 x a 2: each dimension needs a name of its own"));
  CHECK_THAT(refusal({{"", 4}}, 4), Catch::Contains("a name of its own"));
  CHECK_THAT(refusal({{"a", -2}, {"b", -2}}, 4), Catch::Contains("at least 1"));
  CHECK_THAT(refusal({{"a", 2}, {"b", 3}}, 4), Catch::Contains("mesh a 2 x b 3 does not fit the 4 ranks"));
  CHECK_THAT(refusal({{"a", 65536}, {"b", 65536}, {"c", 4}}, 4), Catch::Contains("does not fit the 4 ranks"));
  const MeshLayout mesh({{"a", 2}, {"b", 2}}, 4);
  CHECK_THROWS_WITH(mesh.size("shard"), "dtrain: mesh a 2 x b 2 has no dimension 'shard'");
  CHECK_THROWS_WITH(mesh.rank_at({0, 2}), "dtrain: mesh a 2 x b 2 has no place [0, 2]");
  CHECK_THROWS_WITH(mesh.rank_at({0}), "dtrain: mesh a 2 x b 2 has no place [0]");
}

TEST_CASE("the first rank that does not agree with rank 0 is named with what both say") {
  CHECK(disagreement({"a", "a", "a"}).empty());
  CHECK(disagreement({"a"}).empty());
  CHECK_THAT(disagreement({call_of({0, 2}), call_of({0, 2}), call_of({0, 2}), call_of({0, 1})}),
             Catch::Contains("rank 3 says new_group([0, 1]), rank 0 says new_group([0, 2])"));
}

TEST_CASE("lists that are no group") {
  CHECK(why_no_group({2, 0}, 3).empty());
  CHECK_THAT(why_no_group({}, 3), Catch::Contains("new_group([]): a group needs a rank"));
  CHECK_THAT(why_no_group({0, 3}, 3), Catch::Contains("there is no rank 3; ranks are 0 to 2"));
  CHECK_THAT(why_no_group({0, -1}, 3), Catch::Contains("there is no rank -1"));
  CHECK_THAT(why_no_group({0, 1, 0}, 3), Catch::Contains("rank 0 is named twice"));
}

TEST_CASE("ranks of one colour are a group, and those without are in none") {
  const std::vector<std::string> colours{text_of(std::optional(7)), text_of(std::optional(-1)), text_of(std::nullopt),
                                         text_of(std::optional(7)), text_of(std::nullopt)};
  CHECK(same_colour(colours, 0) == Ranks{0, 3});
  CHECK(same_colour(colours, 1) == Ranks{1});
  CHECK(same_colour(colours, 4) == Ranks{});
}

TEST_CASE("errors of a group name the job's ranks and the group") {
  const RankNames names{"shard", {4, 11}};
  const CollectiveError died(
      FailureKind::peer_died, 1,
      "dtrain: collective 3 (broadcast 4 bytes from rank 0): rank 1 (pid 31) died; 2 ranks, rank");
  const auto error = renamed(std::make_exception_ptr(died), names);
  CHECK(message_of(error) ==
        "dtrain: group 'shard' (ranks 4, 11): collective 3 (broadcast 4 bytes from rank 4): rank 11 (pid 31) died; 2 "
        "ranks, rank");
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveError& found) {
    CHECK(found.rank() == 11);
    CHECK(found.kind() == FailureKind::peer_died);
  }
  CHECK(message_of(renamed(std::make_exception_ptr(std::runtime_error("rank 0 did not come")), names)) ==
        "group 'shard' (ranks 4, 11): rank 4 did not come");
  CHECK(renamed("rank 2 and rank 01x", names) == "rank 2 and rank 11x");
  const auto same = std::make_exception_ptr(died);
  CHECK(renamed(same, {}) == same);
  CHECK(text_of(Ranks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "0, 1, 2, 3, 4, 5, 6, 7, ... (10 ranks)");
}

TEST_CASE("a rank has the GPU of its number, or the only one") {
  CHECK(gpu_for(0, 4) == 0);
  CHECK(gpu_for(3, 4) == 3);
  CHECK(gpu_for(3, 1) == 0);
  CHECK_THROWS_WITH(gpu_for(4, 4), Catch::Contains("LOCAL_RANK is 4 and this process sees 4 GPUs"));
}
