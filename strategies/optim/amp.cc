// Autocast and GradScaler; see include/dtrain/amp.h.
#include "dtrain/amp.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strategies/extra/saved_state.h"

namespace dtrain {

Autocast::Autocast(at::DeviceType device, at::ScalarType type, bool enabled)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      was_type_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, was_type_);
}

GradScaler::GradScaler(const GradScalerOptions& options, SumOverRanks sum) : options_(options), sum_(std::move(sum)) {
  const auto demand = [](bool holds, const char* option, double value, const char* range) {
    if (!holds) throw ConfigError(fmt::format("dtrain: GradScaler: {}={}; choose a number {}", option, value, range));
  };
  demand(std::isfinite(options.init_scale) && options.init_scale > 0, "init_scale", options.init_scale, "above 0");
  demand(options.growth_factor > 1, "growth_factor", options.growth_factor, "above 1");
  demand(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor", options.backoff_factor,
         "above 0 and below 1");
  demand(options.growth_interval >= 1, "growth_interval", options.growth_interval, "that is 1 or more");
  demand(options.hysteresis >= 1, "hysteresis", options.hysteresis, "that is 1 or more");
  demand(options.min_scale >= 0 && options.min_scale <= options.init_scale, "min_scale", options.min_scale,
         "from 0 to init_scale");
  state_.scale = options.enabled ? options.init_scale : 1;
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const { return options_.enabled ? loss * state_.scale : loss; }

void GradScaler::unscale(const std::vector<at::Tensor>& gradients) {
  if (!options_.enabled || stage_ == Stage::stepped) return;
  if (stage_ == Stage::unscaled)
    throw ConfigError("dtrain: GradScaler: unscale() was called twice for one step; call update() after each step");
  find_not_finite(gradients);
  stage_ = Stage::unscaled;
}

void GradScaler::find_not_finite(const std::vector<at::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  at::Tensor found, inverse;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (!found.defined()) {
      const auto options = gradient.options().dtype(at::kFloat);
      found = at::zeros({1}, options);
      inverse = at::full({1}, 1 / state_.scale, options);
    }
    at::_amp_foreach_non_finite_check_and_unscale_(gradient, found, inverse);
  }
  if (!found.defined()) found = at::zeros({1});
  if (sum_) sum_(found);
  is_finite_ = found.item<float>() == 0;
}

bool GradScaler::step(ShardedOptimizer& optimizer, const std::vector<at::Tensor>& gradients) {
  if (!options_.enabled) {
    optimizer.step(gradients);
    return true;
  }
  if (stage_ == Stage::stepped)
    throw ConfigError("dtrain: GradScaler: step() was called twice; call update() after each step");
  if (stage_ == Stage::scaled) unscale(gradients);
  stage_ = Stage::stepped;
  if (is_finite_) optimizer.step(gradients);
  return is_finite_;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (stage_ == Stage::scaled)
    throw ConfigError("dtrain: GradScaler: update() was called before unscale() and step(); call it after each step");
  if (options_.dynamic) change_scale();
  stage_ = Stage::scaled;
  is_finite_ = true;
}

void GradScaler::change_scale() {
  if (!is_finite_) {
    state_.growth_tracker = 0;
    // As DeepSpeed does: once the scale has become smaller, each further step without finite gradients lessens it.
    if (state_.overflows + 1 < options_.hysteresis) {
      ++state_.overflows;
    } else {
      state_.scale = std::max(state_.scale * options_.backoff_factor, options_.min_scale);
    }
  } else if (++state_.growth_tracker >= options_.growth_interval) {  // above it: restored from a longer interval
    const double grown = state_.scale * options_.growth_factor;
    state_ = {.scale = std::isfinite(static_cast<float>(grown)) ? grown : state_.scale};
  }
}

std::string GradScaler::save_into(const std::string& extra, const std::string& key) const {
  if (stage_ != Stage::scaled)
    throw ConfigError("dtrain: GradScaler: save_into() was called before update(); call it after update()");
  return with_state("GradScaler", extra, key,
                    {{"enabled", options_.enabled},
                     {"scale", json_of_number(state_.scale)},
                     {"growth_tracker", state_.growth_tracker},
                     {"overflows", state_.overflows}});
}

void GradScaler::restore(const std::string& extra, const std::string& key) {
  SavedState saved("GradScaler", extra, key);
  const bool was_enabled = saved.flag("enabled");
  const GradScalerState state{.scale = saved.number("scale"),
                              .growth_tracker = saved.count("growth_tracker"),
                              .overflows = saved.count("overflows")};
  saved.finish();
  if (!options_.enabled) return;
  if (!was_enabled)
    throw ConfigError(
        "dtrain: GradScaler: the checkpoint was saved with a scaler that was not enabled, so it has no scale; leave "
        "out restore() to begin with init_scale");
  state_ = state;
  stage_ = Stage::scaled;
  is_finite_ = true;
}

}  // namespace dtrain
