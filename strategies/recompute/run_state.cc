#include "strategies/recompute/run_state.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>

namespace dtrain {
namespace {

namespace autocast = at::autocast;

at::Tensor state_of(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

RandomState RandomState::now(const std::vector<at::Tensor>& tensors) {
  RandomState state;
  state.states_.emplace_back(at::kCPU, state_of(at::kCPU));
  for (const at::Tensor& each : tensors) {
    if (!each.defined() || !each.is_cuda()) continue;
    const auto same = [&](const auto& one) { return one.first == each.device(); };
    if (std::none_of(state.states_.begin(), state.states_.end(), same))
      state.states_.emplace_back(each.device(), state_of(each.device()));
  }
  return state;
}

RandomState RandomState::again() const {
  RandomState state;
  for (const auto& [device, before] : states_) state.states_.emplace_back(device, state_of(device));
  return state;
}

void RandomState::set() const {
  for (const auto& [device, state] : states_) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

AutocastState AutocastState::now() {
  AutocastState state;
  for (std::size_t i = 0; i < state.enabled.size(); ++i) {
    state.enabled[i] = autocast::is_autocast_enabled(autocast::_AUTOCAST_SUPPORTED_DEVICES[i]);
    state.types[i] = autocast::get_autocast_dtype(autocast::_AUTOCAST_SUPPORTED_DEVICES[i]);
  }
  state.keeps_casts = autocast::is_autocast_cache_enabled();
  return state;
}

void AutocastState::set() const {
  for (std::size_t i = 0; i < enabled.size(); ++i) {
    autocast::set_autocast_enabled(autocast::_AUTOCAST_SUPPORTED_DEVICES[i], enabled[i]);
    autocast::set_autocast_dtype(autocast::_AUTOCAST_SUPPORTED_DEVICES[i], types[i]);
  }
  autocast::set_autocast_cache_enabled(keeps_casts);
}

AsInFirstRun::AsInFirstRun(const RandomState& random, const AutocastState& autocast)
    : random_before_(random.again()), autocast_before_(AutocastState::now()), with_gradients_(true) {
  random.set();
  autocast.set();
  autocast::increment_nesting();
}

AsInFirstRun::~AsInFirstRun() {
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast_before_.set();
  random_before_.set();
}

}  // namespace dtrain
