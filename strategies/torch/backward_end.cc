#include "strategies/torch/backward_end.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace dtrain {
namespace {

thread_local InnerBackward* innermost = nullptr;
thread_local int first_runs = 0;  // one within the other

}  // namespace

void at_end_of_backward(std::function<void()> call) {
  if (innermost != nullptr) {
    innermost->calls_.push_back(std::move(call));
  } else {
    torch::autograd::Engine::get_default_engine().queue_callback(std::move(call));
  }
}

InnerBackward::InnerBackward() : outer_(std::exchange(innermost, this)) {}

InnerBackward::~InnerBackward() {
  innermost = outer_;
  for (auto& call : calls_) at_end_of_backward(std::move(call));
}

InFirstRun::InFirstRun() { ++first_runs; }
InFirstRun::~InFirstRun() { --first_runs; }
bool is_first_run() { return first_runs > 0 && !at::GradMode::is_enabled(); }

}  // namespace dtrain
