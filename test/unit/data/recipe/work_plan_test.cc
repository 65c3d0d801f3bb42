#include "data/recipe/work_plan.h"

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

constexpr std::int64_t kMega = 1 << 20;

}  // namespace

TEST_CASE("work: partitions are runs of units, and do not depend on threads") {
  const WorkFacts facts{std::vector<std::int64_t>(64, 10 * kMega), 4096 * kMega, {}, 2};
  WorkFacts wide = facts;
  wide.threads = 64;
  const WorkPlan plan = plan_work(facts);
  CHECK(plan.partitions.front() == 0);
  CHECK(plan.partitions.back() == 64);
  CHECK(plan.partition_count() == 64);
  CHECK(plan_work(wide).partitions == plan.partitions);
  CHECK(plan_work(wide).block_bytes == plan.block_bytes);
  CHECK(plan.threads == 2);
}

TEST_CASE("work: small units come together") {
  const WorkPlan plan = plan_work({std::vector<std::int64_t>(10'000, 1000), 1024 * kMega, {}, 1});
  CHECK(plan.partition_count() < 50);
  CHECK(plan.partition_count() > 30);
}

TEST_CASE("work: parallelism is the number of partitions, unless there are fewer units") {
  const std::vector<std::int64_t> units{1, 1, 1, 90, 1, 1, 1, 1, 1, 1};
  for (std::int64_t wanted = 1; wanted <= 12; ++wanted) {
    const WorkPlan plan = plan_work({units, 1024 * kMega, wanted, 1});
    CHECK(plan.partition_count() == static_cast<std::size_t>(std::min<std::int64_t>(wanted, 10)));
    for (std::size_t i = 0; i < plan.partition_count(); ++i) CHECK(plan.partitions[i] < plan.partitions[i + 1]);
  }
  const WorkPlan halves = plan_work({std::vector<std::int64_t>(10, 5), 1024 * kMega, 2, 1});
  CHECK(halves.partitions == std::vector<std::size_t>{0, 5, 10});
}

TEST_CASE("work: little memory means small blocks and few threads") {
  const WorkPlan plan = plan_work({std::vector<std::int64_t>(1000, kMega), 128 * kMega, {}, 16});
  CHECK(plan.block_bytes < 2 * kMega);
  CHECK(plan.threads == 4);
  CHECK(plan.store_bytes <= 40 * kMega);
}

TEST_CASE("work: the largest unit that is allowed leaves room for rows that wait") {
  const std::int64_t limit = 512 * kMega;
  const WorkPlan plan = plan_work({{unit_bytes_max(limit), 1}, limit, {}, 16});
  CHECK(plan.threads == 1);
  CHECK(plan.block_bytes == unit_bytes_max(limit));
  CHECK(plan.store_bytes >= limit / 10);
  CHECK(plan.store_bytes + 5 * plan.block_bytes <= limit);
}
