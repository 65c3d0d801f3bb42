// The rates of a config's schedule; see training_config.h. Pure. The command line, which reads configs too, does not
// compute rates: so it needs no libm, which makes each start slower.
// Tested by test/unit/strategies/config/deepspeed_optimizer_test.cc and ludwig_trainer_test.cc.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtrain/training_config.h"

namespace dtrain {
namespace {

// How far the warm-up is, from 0 to 1, in the scheduler's own count.
template <class Rate>
double warmed_up(const Rate& rate, double at) {
  return rate.is_log ? std::log(at + 1) / std::log(rate.warmup) : at / rate.warmup;
}

// How DecayRate falls, `at` batches after its warm-up.
double decayed(const DecayRate& rate, double at) {
  using Decay = DecayRate::Decay;
  switch (rate.decay) {
    case Decay::linear: {
      const double all = rate.end - rate.warmup;
      return rate.base * std::max(0.0, (all - at) / std::max(1.0, all));
    }
    case Decay::exponential: {
      const double times = 1 + at / rate.every;
      return rate.base * std::pow(rate.factor, rate.stairs ? std::ceil(times) : times);
    }
    case Decay::cosine: {
      double period = rate.every;
      if (rate.growth == 1) at = std::fmod(at, period);
      for (; at >= period; period *= rate.growth) at -= period;
      return rate.low + (rate.base - rate.low) * (1 + std::cos(std::numbers::pi * at / period)) / 2;
    }
    case Decay::none:
      break;
  }
  return rate.base;
}

// DeepSpeed's classes count from -1: the first step has the rate that they begin with, and step k the rate after k
// calls of their step(), which is that of number k - 1.
struct RateAt {
  double step;

  double operator()(std::monostate /*none*/) const { return 0; }
  double operator()(const WarmupRate& rate) const {
    const double at = step - 1;
    if (at < 0) return rate.low;
    if (at < rate.warmup) return rate.low + (rate.high - rate.low) * warmed_up(rate, at);
    if (!rate.steps) return rate.high;
    const double left = (*rate.steps - at) / std::max(1.0, *rate.steps - rate.warmup);
    return rate.low + (rate.high - rate.low) * std::max(0.0, left);
  }
  double operator()(const WarmupCosineRate& rate) const {
    const double at = step - 1;
    if (at < 0) return 0;
    if (at < rate.warmup) return rate.base * (rate.first + (1 - rate.first) * warmed_up(rate, at));
    const double done = std::min(1.0, (at - rate.warmup + 1) / std::max(1.0, rate.steps - rate.warmup));
    return rate.base * (rate.last + (1 - rate.last) * (1 + std::cos(std::numbers::pi * done)) / 2);
  }
  double operator()(const OneCycleRate& rate) const {
    const double all = rate.up + rate.down;
    if (step <= rate.up) return rate.low + (rate.high - rate.low) * step / rate.up;
    if (step <= all) return rate.low + (rate.high - rate.low) * (all - step) / rate.down;
    return rate.every == 0 || rate.decay == 0 ? rate.low : rate.low / (1 + rate.decay * (step - all) / rate.every);
  }
  double operator()(const RangeTestRate& rate) const {
    const double intervals = step / rate.every;
    return rate.low * (1 + rate.growth * (rate.stairs ? std::floor(intervals) : intervals));
  }
  // Ludwig counts a batch when it is over, and steps in the last one of its batches.
  double operator()(const DecayRate& rate) const {
    const double at = (step + 1) * rate.batches - 1, warm = std::ceil(rate.warmup);
    return at < warm ? rate.base * at / std::max(1.0, rate.warmup) : decayed(rate, at - warm);
  }
};

}  // namespace

double LearningRate::operator()(std::int64_t step) const {
  return std::visit(RateAt{static_cast<double>(step)}, schedule);
}

}  // namespace dtrain
