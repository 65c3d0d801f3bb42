// Schedules; see include/dtrain/schedule.h. Pure. Tested by test/unit/strategies/optim/schedule_test.cc
#include "dtrain/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "strategies/extra/saved_state.h"

namespace dtrain {
namespace {

void demand_of_schedule(bool holds, const char* schedule, const char* what) {
  if (!holds) throw ConfigError(fmt::format("dtrain: the schedule {}: {}", schedule, what));
}

double between(double start, double end, double part) { return start + (end - start) * part; }

double along_cosine(double start, double end, double part) {
  return end + (start - end) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// How much of a range is done, from 0 to 1.
double part_done(double step, double first, double last) {
  return last <= first ? 1 : std::clamp((step - first) / (last - first), 0.0, 1.0);
}

}  // namespace

Schedule constant(double factor) {
  return [factor](std::int64_t) { return factor; };
}

Schedule linear(std::int64_t steps, double start, double end) {
  demand_of_schedule(steps >= 1, "linear", "its number of steps must be 1 or more");
  return [=](std::int64_t step) {
    return between(start, end, part_done(static_cast<double>(step), 0, static_cast<double>(steps)));
  };
}

Schedule cosine(std::int64_t steps, double final_ratio) {
  demand_of_schedule(steps >= 1, "cosine", "its number of steps must be 1 or more");
  return [=](std::int64_t step) {
    return along_cosine(1, final_ratio, part_done(static_cast<double>(step), 0, static_cast<double>(steps)));
  };
}

Schedule step_decay(std::int64_t every, double factor) {
  demand_of_schedule(every >= 1, "step_decay", "the steps between two changes must be 1 or more");
  return [=](std::int64_t step) { return std::pow(factor, static_cast<double>(step / every)); };
}

Schedule exponential(double factor) {
  return [factor](std::int64_t step) { return std::pow(factor, static_cast<double>(step)); };
}

Schedule one_cycle(const OneCycle& options) {
  demand_of_schedule(options.steps >= 2, "one_cycle", "its number of steps must be 2 or more");
  demand_of_schedule(options.rising_part >= 0 && options.rising_part <= 1, "one_cycle",
                     "rising_part must be from 0 to 1");
  demand_of_schedule(options.start_divisor > 0 && options.end_divisor > 0, "one_cycle", "its divisors must be above 0");
  return [=](std::int64_t number) {
    const auto shape = options.is_linear ? between : along_cosine;
    const auto steps = static_cast<double>(options.steps), step = static_cast<double>(number);
    const double top = options.rising_part * steps - 1;  // as torch places it
    const double start = 1 / options.start_divisor, end = start / options.end_divisor;
    return step <= top ? shape(start, 1, part_done(step, 0, top)) : shape(1, end, part_done(step, top, steps - 1));
  };
}

Schedule after_warmup(std::int64_t steps, Schedule next, double start) {
  demand_of_schedule(steps >= 0, "after_warmup", "its number of steps must be 0 or more");
  return steps == 0 ? next : chained({linear(steps, start, 1), std::move(next)}, {steps});
}

Schedule chained(std::vector<Schedule> schedules, std::vector<std::int64_t> until) {
  demand_of_schedule(!schedules.empty() && until.size() + 1 == schedules.size(), "chained",
                     "give one step less than schedules: those in which the second and the further ones begin");
  demand_of_schedule(std::is_sorted(until.begin(), until.end()), "chained", "let the steps increase");
  return [schedules = std::move(schedules), until = std::move(until)](std::int64_t step) {
    const auto which = static_cast<std::size_t>(std::upper_bound(until.begin(), until.end(), step) - until.begin());
    return schedules[which](which == 0 ? step : step - until[which - 1]);
  };
}

Plateau::Plateau(const PlateauOptions& options) : options_(options) {
  demand_of_schedule(options.factor > 0 && options.factor < 1, "Plateau", "its factor must be above 0 and below 1");
  demand_of_schedule(options.patience >= 0 && options.cooldown >= 0, "Plateau",
                     "its patience and its cooldown must be 0 or more");
}

bool Plateau::is_better(double metric) const {
  if (std::isnan(metric)) return false;
  if (!state_.best) return true;
  const double sign = options_.larger_is_better ? 1 : -1;
  const double bar =
      options_.is_relative ? *state_.best * (1 + sign * options_.threshold) : *state_.best + sign * options_.threshold;
  return options_.larger_is_better ? metric > bar : metric < bar;
}

double Plateau::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad_evaluations = 0;
  } else {
    ++state_.bad_evaluations;
  }
  if (state_.cooldown_left > 0) {
    --state_.cooldown_left;
    state_.bad_evaluations = 0;
  }
  if (state_.bad_evaluations > options_.patience) {
    state_.factor = std::max(state_.factor * options_.factor, options_.min_factor);
    state_.cooldown_left = options_.cooldown;
    state_.bad_evaluations = 0;
  }
  return state_.factor;
}

std::string Plateau::save_into(const std::string& extra, const std::string& key) const {
  return with_state("Plateau", extra, key,
                    {{"factor", json_of_number(state_.factor)},
                     {"best", state_.best ? json_of_number(*state_.best) : StateJson()},
                     {"bad_evaluations", state_.bad_evaluations},
                     {"cooldown_left", state_.cooldown_left}});
}

void Plateau::restore(const std::string& extra, const std::string& key) {
  SavedState saved("Plateau", extra, key);
  const PlateauState state{.factor = saved.number("factor", /*zero_too=*/true),
                           .best = saved.any_number("best"),
                           .bad_evaluations = saved.count("bad_evaluations"),
                           .cooldown_left = saved.count("cooldown_left")};
  saved.finish();
  state_ = state;
}

}  // namespace dtrain
