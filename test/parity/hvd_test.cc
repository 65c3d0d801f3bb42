// hvd::DistributedOptimizer against a single process on the whole batch, in double precision.
#include <fmt/format.h>

#include "test/parity/hvd_cases.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct Training {
  bool adam = false;
  int passes = 1;
  int steps = 50;
  bool shuffled = false;  // each rank's gradients come in an order of its own
  bool clipped = false;
  hvd::OptimizerOptions options{};
  hvd::Settings settings = brisk();
  at::ScalarType type = torch::kDouble;
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const torch::nn::Module& net, bool adam) {
  if (adam) return std::make_unique<torch::optim::Adam>(net.parameters(), torch::optim::AdamOptions(0.01));
  return std::make_unique<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

// The loss in parts, one for each branch, whose backwards this rank does in an order of its own.
void backward(SmallNet& net, const SmallBatch& batch, const Training& training, int rank) {
  if (!training.shuffled) return mean_error(net, batch).backward();
  // With detached copies of the others, each parameter gets its gradient in one of the four backwards.
  std::vector<torch::Tensor> values;
  std::vector<torch::Tensor> leaves;
  for (auto& branch : net->branches) {
    values.push_back(torch::tanh(branch(batch.x)));
    leaves.push_back(values.back().detach().requires_grad_());
  }
  (net->last(torch::cat(leaves, 1)) - batch.y).pow(2).mean().backward();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t mine = (i + static_cast<std::size_t>(rank)) % values.size();
    values[mine].backward(leaves[mine].grad());
  }
}

// The largest difference of a parameter, of all steps.
double train_beside(Session& session, const Training& training) {
  hvd::Context context(session, training.settings);
  torch::manual_seed(session.rank());
  SmallNet shared(training.type);
  hvd::broadcast_parameters(session, *shared);
  torch::manual_seed(0);
  SmallNet plain(training.type);
  const auto shared_inner = make_optimizer(*shared, training.adam);
  const auto plain_optimizer = make_optimizer(*plain, training.adam);
  hvd::OptimizerOptions options = training.options;
  options.backward_passes_per_step = training.passes;
  hvd::DistributedOptimizer optimizer(context, *shared_inner, shared->named_parameters(), options);
  double largest = 0;
  for (int step = 0; step < training.steps; ++step) {
    for (int pass = 0; pass < training.passes; ++pass) {
      const SmallBatch all = batch_of(step * training.passes + pass, training.type);
      backward(shared, share_of(all, session.rank(), session.world_size()), training, session.rank());
      mean_error(plain, all).backward();
    }
    if (options.reduce.op == hvd::Op::sum) {
      for (auto& parameter : plain->parameters()) parameter.mutable_grad().mul_(session.world_size());
    }
    if (training.clipped) {
      optimizer.synchronize();
      torch::nn::utils::clip_grad_norm_(shared->parameters(), 0.1);
      torch::nn::utils::clip_grad_norm_(plain->parameters(), 0.1);
      const auto skip = optimizer.skip_synchronize();
      optimizer.step();
    } else {
      optimizer.step();
    }
    plain_optimizer->step();
    optimizer.zero_grad();
    plain_optimizer->zero_grad();
    largest = std::max(largest, largest_difference(*shared, *plain));
  }
  return largest;
}

void require_parity(int ranks, const Training& training, double tolerance) {
  require_all_said(hvd_ranks(ranks,
                             [&](Session& session) {
                               const double largest = train_beside(session, training);
                               return largest <= tolerance ? "same" : fmt::format("{} apart", largest);
                             }),
                   "same");
}

}  // namespace

TEST_CASE("hvd: 50 steps of 1, 2 and 4 ranks are those of one process on the whole batch") {
  const int ranks = GENERATE(1, 2, 4);
  Training training;
  training.adam = GENERATE(false, true);
  CAPTURE(ranks, training.adam);
  require_parity(ranks, training, 1e-9);
}

TEST_CASE("hvd: gradients of two backwards are one step") {
  Training training;
  training.passes = 2;
  training.adam = GENERATE(false, true);
  require_parity(2, training, 1e-9);
}

TEST_CASE("hvd: every rank may have its gradients in another order") {
  Training training;
  training.shuffled = true;
  SECTION("all fused") {}
  SECTION("nothing fused") { training.settings.fusion_threshold = 0; }
  SECTION("a few fused, and a small cache") {
    training.settings.fusion_threshold = 300;
    training.settings.cache_capacity = 3;
  }
  SECTION("in groups") {
    training.options.groups = {{"branch0.weight", "branch3.bias"}, {"last.bias", "branch1.weight", "branch2.weight"}};
  }
  require_parity(3, training, 1e-9);
}

TEST_CASE("hvd: the sum, a factor before it, and clipped gradients") {
  Training training;
  training.steps = 20;
  SECTION("sum") { training.options.reduce.op = hvd::Op::sum; }
  SECTION("factor") { training.options.reduce.predivide_factor = 3.0; }
  SECTION("clipped") { training.clipped = true; }
  require_parity(2, training, 1e-9);
}

TEST_CASE("hvd: compressed gradients are within the precision of their type") {
  Training training;
  training.type = torch::kFloat;
  training.steps = 10;
  const bool half = GENERATE(true, false);
  training.options.reduce.compression = half ? GradientCompression::fp16 : GradientCompression::bf16;
  require_parity(2, training, half ? 2e-3 : 2e-2);
  training.options.reduce.compression = GradientCompression::none;
  require_parity(2, training, 1e-5);
}

TEST_CASE("hvd: two optimizers over one context, and parameters that no backward reaches") {
  require_all_said(hvd_ranks(2,
                             [](Session& session) -> std::string {
                               hvd::Context context(session, brisk());
                               torch::manual_seed(3);
                               torch::nn::Linear one(2, 2);
                               torch::nn::Linear two(3, 1);
                               torch::nn::Linear unused(2, 1);
                               two->register_module("unused", unused.ptr());
                               torch::optim::SGD first_sgd(one->parameters(), 0.1);
                               torch::optim::SGD second_sgd(two->parameters(), 0.1);
                               hvd::DistributedOptimizer first(context, first_sgd, one->named_parameters());
                               hvd::DistributedOptimizer second(context, second_sgd, two->named_parameters());
                               for (int step = 0; step < 3; ++step) {
                                 one(torch::ones({1, 2}) * (session.rank() + 1)).sum().backward();
                                 two(torch::ones({1, 3}) * (session.rank() + 1)).sum().backward();
                                 // In another order on the other rank: the waits do not depend on each other.
                                 first.synchronize();
                                 second.synchronize();
                                 const bool right = torch::allclose(one->weight.grad(), torch::full({2, 2}, 1.5)) &&
                                                    torch::allclose(two->weight.grad(), torch::full({1, 3}, 1.5)) &&
                                                    unused->weight.grad().abs().sum().item<float>() == 0;
                                 if (!right) return "wrong";
                                 const auto skip_first = first.skip_synchronize();
                                 const auto skip_second = second.skip_synchronize();
                                 first.step();
                                 second.step();
                                 first.zero_grad();
                                 second.zero_grad();
                               }
                               return "right";
                             }),
                   "right");
}

TEST_CASE("hvd: state of SGD and Adam goes to ranks that made no step, and replaces what they have") {
  const bool adam = GENERATE(false, true);
  const bool others_too = GENERATE(false, true);
  require_all_said(hvd_ranks(2,
                             [&](Session& session) {
                               torch::manual_seed(1);
                               SmallNet net;
                               const auto optimizer = make_optimizer(*net, adam);
                               if (session.rank() == 1 || others_too) {
                                 for (int step = 0; step < 3 + session.rank(); ++step) {
                                   optimizer->zero_grad();
                                   mean_error(net, batch_of(step + 7 * session.rank())).backward();
                                   optimizer->step();
                                 }
                               }
                               hvd::broadcast_parameters(session, *net, 1);
                               hvd::broadcast_optimizer_state(session, *optimizer, 1);
                               for (int step = 0; step < 3; ++step) {
                                 optimizer->zero_grad();
                                 mean_error(net, batch_of(step + 50)).backward();
                                 optimizer->step();
                               }
                               double sum = 0;
                               for (const auto& parameter : net->parameters()) {
                                 torch::Tensor of_root = parameter.detach().clone();
                                 session.broadcast(of_root, 1);
                                 sum += (of_root - parameter).abs().sum().item<double>();
                               }
                               return std::to_string(sum);
                             }),
                   "0.000000");
}

TEST_CASE("hvd: state that ranks without any cannot have is forgotten on all") {
  require_all_said(hvd_ranks(2,
                             [&](Session& session) {
                               SmallNet net;
                               const auto optimizer = make_optimizer(*net, false);
                               if (session.rank() == 1) {
                                 mean_error(net, batch_of(0)).backward();
                                 optimizer->step();
                               }
                               hvd::broadcast_optimizer_state(session, *optimizer);
                               return std::to_string(optimizer->state().size());
                             }),
                   "0");
}

TEST_CASE("hvd: parameters and optimizers that do not fit are refused on every rank, with the first that differs") {
  const auto outcomes = hvd_ranks(3, [](Session& session) {
    std::string said;
    torch::nn::Linear net(4, session.rank() == 2 ? 3 : 2);
    try {
      hvd::broadcast_parameters(session, *net);
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    torch::optim::SGD sgd(session.rank() == 1 ? std::vector<at::Tensor>{net->weight} : net->parameters(), 0.1);
    try {
      hvd::broadcast_optimizer_state(session, sgd);
    } catch (const std::runtime_error& error) {
      said += std::string("; ") + error.what();
    }
    return said;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes)
    CHECK_THAT(outcome.said,
               Catch::StartsWith("dtrain: rank 2: 'weight' Float [3, 4] here, but 'weight' Float [2, 4] on "
                                 "rank 0; dtrain: rank 1: the optimizer's state of rank 0 does not fit"));
}
