// Fuzzes what DTRAIN_STRATEGY may have: it is refused with a reason, or it is a strategy and what a program reads of it
// makes sense.
#include <cmath>
#include <cstdint>

#include "dtrain/training_config.h"
#include "rendezvous/base/check.h"

using namespace dtrain;

namespace {

void check_strategy(const Strategy& strategy) {
  DT_CHECK(!name_of(strategy.kind).empty(), "it has a name");
  DT_CHECK(strategy.bucket_bytes > 0 && strategy.prefetch >= 0 && strategy.prefetch_bytes >= 0 &&
               strategy.shard_size >= 0 && strategy.whole_elements >= 0,
           "ranges hold");
  const bool sharded = strategy.kind != StrategyKind::ddp;
  DT_CHECK(sharded || strategy.param == Precision::same, "ddp has no mixed precision");
}

void check_training(const TrainingConfig& training, const JobSize& job) {
  if (training.rate)
    for (const std::int64_t step : {0, 1, 2, 1000, 1 << 30})
      DT_CHECK(!std::isnan(training.rate(step)), "each step has a rate");
  DT_CHECK(!training.max_norm || *training.max_norm > 0, "a norm that clips");
  DT_CHECK(!training.steps || *training.steps > 0, "a training has a step");
  if (training.global_batch > 0 && job.ranks > 0)
    DT_CHECK(training.micro_batch * training.accumulation * job.ranks == training.global_batch, "the sizes agree");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const JobSize& job : {JobSize{}, JobSize{.ranks = 4, .ranks_of_host = 2}}) {
    try {
      const Config config = parse_config(text, job);
      check_strategy(config.strategy);
      check_training(config.training, job);
    } catch (const ConfigError& error) {
      DT_CHECK(std::string(error.what()).starts_with("dtrain: strategy"), "a refusal says whose it is");
    }
  }
  return 0;
}
