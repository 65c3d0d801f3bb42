#include "data/process/source_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "data/arrow/arrow_calls.h"
#include "strategies/kept/available_memory.h"

namespace dtrain::data {

std::int64_t memory_limit(const Recipe& recipe) {
  constexpr std::uint64_t kUnknown = std::uint64_t{4} << 30, kLeast = std::uint64_t{64} << 20;
  if (recipe.memory_limit_bytes) return *recipe.memory_limit_bytes;
  return static_cast<std::int64_t>(std::max(kept::available_memory().value_or(kUnknown) / 4, kLeast));
}

std::int64_t bytes_in_work(const Source& source, std::size_t unit, const Growth& growth) {
  return growth.bytes(source.units()[unit].bytes, source.units()[unit].rows);
}

WorkPlan work_of(const Recipe& recipe, const Source& source, const Growth& growth, std::int64_t memory) {
  WorkFacts facts;
  facts.memory_bytes = memory;
  facts.parallelism = recipe.parallelism;
  facts.threads = static_cast<std::size_t>(recipe.threads.value_or(std::max(1U, std::thread::hardware_concurrency())));
  for (std::size_t unit = 0; unit < source.units().size(); ++unit) {
    const std::int64_t bytes = bytes_in_work(source, unit, growth);
    if (bytes > unit_bytes_max(memory))
      fail_at(
          source.where(unit, 0),
          fmt::format("from here {} MB must be read at once{}, and the memory limit of {} MB allows an eighth of it; "
                      "raise backend.processor.memory_limit_bytes, or write the file with smaller row groups",
                      source.units()[unit].bytes / 1'000'000,
                      growth.times > 1 ? fmt::format(" and become {} MB", bytes / 1'000'000) : "", memory / 1'000'000));
    facts.unit_bytes.push_back(bytes);
  }
  return plan_work(facts);
}

std::vector<std::shared_ptr<arrow::DataType>> types_read(const Source& source, const ProcessPlan& plan) {
  std::vector<std::shared_ptr<arrow::DataType>> types;
  for (const std::size_t column : plan.read) types.push_back(source.schema().field(static_cast<int>(column))->type());
  return types;
}

}  // namespace dtrain::data
