#pragma once
// A small net in double precision and its batches, for the tests of hvd.
#include "dtrain/dtrain.h"
#include "test/parity/differences.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

namespace dtrain::test {

struct SmallNetImpl : torch::nn::Module {
  explicit SmallNetImpl(at::ScalarType type = torch::kDouble) {
    for (int i = 0; i < 4; ++i)
      branches.push_back(register_module("branch" + std::to_string(i), torch::nn::Linear(6, 5)));
    last = register_module("last", torch::nn::Linear(20, 3));
    to(type);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (auto& branch : branches) parts.push_back(torch::tanh(branch(x)));
    return last(torch::cat(parts, 1));
  }
  std::vector<torch::nn::Linear> branches;
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(SmallNet);

struct SmallBatch {
  torch::Tensor x, y;
};

// The same on every rank: 12 samples.
inline SmallBatch batch_of(int step, at::ScalarType type = torch::kDouble) {
  torch::manual_seed(100 + step);
  return {torch::randn({12, 6}, torch::kDouble).to(type), torch::randn({12, 3}, torch::kDouble).to(type)};
}

inline SmallBatch share_of(const SmallBatch& all, int rank, int ranks) {
  const auto n = all.x.size(0) / ranks;
  return {all.x.narrow(0, n * rank, n), all.y.narrow(0, n * rank, n)};
}

inline torch::Tensor mean_error(SmallNet& net, const SmallBatch& batch) {
  return (net(batch.x) - batch.y).pow(2).mean();
}

// Settings of a test, whatever its environment.
inline hvd::Settings brisk() {
  hvd::Settings settings;
  settings.cycle_time = std::chrono::microseconds{200};
  settings.collective_timeout = std::chrono::seconds{20};
  settings.stall_failure = std::chrono::seconds{20};
  return settings;
}

// Each rank's text from `body`, which has the session and leaves it whole.
inline std::vector<RankOutcome> hvd_ranks(int ranks, const std::function<std::string(Session&)>& body) {
  return outcomes_of(ranks, body, /*ends=*/true, std::chrono::seconds{60});
}

inline void require_all_said(const std::vector<RankOutcome>& outcomes, const std::string& text) {
  require_all_returned(outcomes);
  for (const RankOutcome& outcome : outcomes) CHECK(outcome.said == text);
}

}  // namespace dtrain::test
