// Ddp with PowerSGD against plain averages. That it does what torch's own does is in ddp_parity.py.
#include "strategies/ddp/power_sgd.h"

#include <fmt/format.h>
#include <signal.h>

#include <functional>

#include "dtrain/dtrain.h"
#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/ddp/power_sgd_plan.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

using namespace dtrain;
using test::on_ranks;
using Strings = std::vector<std::string>;

namespace {

struct WideNetImpl : torch::nn::Module {
  explicit WideNetImpl(at::ScalarType type = torch::kDouble) {
    first = register_module("first", torch::nn::Linear(30, 24));
    second = register_module("second", torch::nn::Linear(24, 20));
    to(type);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(WideNet);

PowerSgd of_rank(int matrix_rank) {
  PowerSgd options;
  options.matrix_rank = matrix_rank;
  options.start_step = 0;
  return options;
}

DdpOptions with(const PowerSgd& power_sgd, std::int64_t bucket_bytes = 25 << 20) {
  DdpOptions options;
  options.power_sgd = power_sgd;
  options.bucket_bytes = options.first_bucket_bytes = bucket_bytes;
  return options;
}

// One sample: gradients of matrices have rank 1 on each rank.
torch::Tensor one_sample(int step, int rank) {
  torch::manual_seed(100 * step + rank);
  return torch::randn({1, 30}, torch::kDouble);
}

// The largest difference, relative to the largest gradient, from the plain average in `steps` steps, one after another.
std::vector<double> errors(Session& session, const DdpOptions& options, int steps,
                           at::ScalarType type = torch::kDouble) {
  torch::manual_seed(0);
  WideNet net(type);
  Ddp model(session, net, options);
  std::vector<double> found;
  for (int step = 0; step < steps; ++step) {
    std::vector<torch::Tensor> expected;
    for (const torch::Tensor& parameter : net->parameters()) expected.push_back(torch::zeros_like(parameter));
    for (int rank = 0; rank < session.world_size(); ++rank) {
      const auto loss = net->forward(one_sample(step, rank).to(type)).pow(2).sum();
      const auto grads = torch::autograd::grad({loss}, net->parameters());
      for (std::size_t i = 0; i < grads.size(); ++i) expected[i] += grads[i] / session.world_size();
    }
    model.zero_grad();
    model(one_sample(step, session.rank()).to(type)).pow(2).sum().backward();
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(
          largest, ((net->parameters()[i].grad() - expected[i]).abs().max() / expected[i].abs().max()).item<double>());
    found.push_back(largest);
  }
  return found;
}

// Trains on a problem whose gradients have full rank; the loss over all ranks' samples at the end.
double loss_after(Session& session, const DdpOptions& options, int steps, torch::Tensor* weights = nullptr) {
  torch::manual_seed(3);
  WideNet net;
  const torch::Tensor target = torch::randn({30, 20}, torch::kDouble);
  Ddp model(session, net, options);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05));
  const auto loss_of = [&](auto& network, int rank) {
    torch::manual_seed(500 + rank);
    const torch::Tensor x = torch::randn({64, 30}, torch::kDouble);
    return (network(x) - torch::tanh(x.matmul(target) / 6)).pow(2).sum(1).mean();
  };
  for (int step = 0; step < steps; ++step) {
    model.zero_grad();
    loss_of(model, session.rank()).backward();
    sgd.step();
  }
  model.verify_sync();
  const torch::NoGradGuard no_grad;
  torch::Tensor loss = loss_of(net, session.rank());
  session.all_reduce(loss, c10d::ReduceOp::AVG);
  if (weights) *weights = torch::nn::utils::parameters_to_vector(net->parameters());
  return loss.item<double>();
}

// Counts what it is given to reduce, and reduces it.
class CountingBackend final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    bytes += static_cast<std::int64_t>(tensors.at(0).nbytes());
    ++calls;
    return CpuBackend::allreduce(tensors, options);
  }
  std::int64_t bytes = 0;
  int calls = 0;
};

}  // namespace

TEST_CASE("where the matrices' rank is enough, the gradients are the plain average") {
  const int ranks = GENERATE(1, 2, 3);
  const double epsilon = GENERATE(0, 1e-12);
  const bool warm = GENERATE(false, true);
  CAPTURE(ranks, epsilon, warm);
  const auto said = on_ranks(ranks, [&](Session& session) -> std::string {
    PowerSgd options = of_rank(3);  // the sum of 3 gradients of rank 1
    options.orthogonalization_epsilon = epsilon;
    options.warm_start = warm;
    options.min_compression_rate = 1;
    const auto found = errors(session, with(options, 1024), 6);
    const double largest = *std::max_element(found.begin(), found.end());
    options.matrix_rank = 1;
    const double rough = errors(session, with(options), 1)[0];
    // One column is not enough for two ranks, and the test would see it.
    if (session.world_size() > 1 && rough < 1e-3) return fmt::format("compresses nothing: {}", rough);
    return largest < 1e-6 ? "equal" : fmt::format("{} apart", largest);
  });
  CHECK(said == Strings(static_cast<std::size_t>(ranks), "equal"));
}

TEST_CASE("gradients of 16 and 32 bits are averaged within their precision") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    PowerSgd options = of_rank(3);
    options.min_compression_rate = 1;
    const double f32 = errors(session, with(options), 1, torch::kFloat)[0];
    const double f16 = errors(session, with(options), 1, torch::kHalf)[0];
    const double bf16 = errors(session, with(options), 1, torch::kBFloat16)[0];
    const bool fits = f32 < 1e-5 && f16 < 4e-3 && bf16 < 3e-2;
    return fits ? "fits" : fmt::format("{} {} {}", f32, f16, bf16);
  });
  CHECK(said == Strings(2, "fits"));
}

TEST_CASE("whole gradients until start_step, thin ones after it") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    PowerSgd options = of_rank(1);
    options.start_step = 3;
    const auto found = errors(session, with(options, 512), 5);
    const bool fits = found[0] < 1e-14 && found[1] < 1e-14 && found[2] < 1e-14 && found[3] > 1e-3 && found[4] > 1e-3;
    return fits ? "fits" : fmt::format("{} {} {} {} {}", found[0], found[1], found[2], found[3], found[4]);
  });
  CHECK(said == Strings(2, "fits"));
}

TEST_CASE("the result is the same bits however gradients are put into buckets") {
  const auto said = on_ranks(3, [](Session& session) -> std::string {
    torch::Tensor one, many;
    loss_after(session, with(of_rank(1)), 8, &one);
    loss_after(session, with(of_rank(1), 256), 8, &many);
    return torch::equal(one, many) ? "equal" : "different";
  });
  CHECK(said == Strings(3, "equal"));
}

TEST_CASE("error feedback brings the loss near the uncompressed one, and without it it stays away") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    constexpr int kSteps = 150;
    PowerSgd options = of_rank(1);
    const double plain = loss_after(session, {}, kSteps);
    const double with_feedback = loss_after(session, with(options), kSteps);
    options.error_feedback = false;
    const double without = loss_after(session, with(options), kSteps);
    const bool fits = with_feedback < 1.15 * plain && without > 3 * plain;
    return fits ? "fits" : fmt::format("plain {} with {} without {}", plain, with_feedback, without);
  });
  CHECK(said == Strings(2, "fits"));
}

TEST_CASE("a step reduces as many bytes as power_sgd.h says") {
  const auto said = on_ranks(2, [](Session& session) {
    const auto keys = c10::make_intrusive<c10d::PrefixStore>("counting", session.store());
    const auto counting = c10::make_intrusive<CountingBackend>(keys, session.rank(), 2, std::chrono::seconds{20});
    const auto group = c10::make_intrusive<c10d::ProcessGroup>(keys, session.rank(), 2);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, counting);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    std::string found;
    for (const auto type : {torch::kFloat, torch::kHalf, torch::kDouble}) {
      const std::vector<torch::Tensor> parameters{torch::zeros({64, 32, 3, 3}, type), torch::zeros({64}, type),
                                                  torch::zeros({100, 64}, type)};
      const auto hook = power_sgd_hook(group, parameters, of_rank(2));
      const std::vector<std::vector<std::int64_t>> shapes{{64, 32, 3, 3}, {64}, {100, 64}};
      c10d::GradBucket bucket(0, 1, torch::ones({18432 + 64 + 6400}, type), {0, 18432, 18432 + 64}, {18432, 64, 6400},
                              {shapes[0], shapes[1], shapes[2]}, parameters, std::nullopt);
      counting->bytes = counting->calls = 0;
      hook->runHook(bucket)->waitAndThrow();
      found += fmt::format("{} {}, ", counting->calls, counting->bytes);
    }
    session.barrier();
    counting->shutdown();  // its thread may hold the last callback, and with it the group, a moment longer
    return found;
  });
  const std::int64_t numbers = 2 * (64 + 288) + 64 + 2 * (100 + 64);
  CHECK(said == Strings(2, fmt::format("2 {}, 2 {}, 2 {}, ", 4 * numbers, 4 * numbers, 8 * numbers)));
}

TEST_CASE("ranks with fewer batches join, and unused parameters are looked for") {
  const auto said = on_ranks(3, [](Session& session) -> std::string {
    torch::manual_seed(0);
    WideNet net;
    DdpOptions options = with(of_rank(1), 256);
    options.find_unused_parameters = true;
    Ddp model(session, net, options);
    torch::optim::SGD sgd(net->parameters(), 0.01);
    int steps = 0;
    model.join([&] {
      for (; steps < 2 + 3 * session.rank(); ++steps) {
        model.zero_grad();
        model(one_sample(steps, session.rank())).pow(2).sum().backward();
        sgd.step();
      }
    });
    model.verify_sync();
    return fmt::format("{}", steps);
  });
  CHECK(said == Strings{"2", "5", "8"});
}

TEST_CASE("options that do not fit are refused before anything is formed") {
  const auto said = on_ranks(2, [](Session& session) {
    WideNet net;
    const auto refusal = [&](const DdpOptions& options) -> std::string {
      try {
        Ddp model(session, net, options);
      } catch (const ConfigError& error) {
        return std::string(error.what()) + "\n";
      }
      return "taken\n";
    };
    DdpOptions both = with(of_rank(1));
    both.compression = GradientCompression::fp16;
    return refusal(both) + refusal(with(of_rank(0)));
  });
  CHECK(said == Strings(2,
                        "dtrain: Ddp takes one of hook, compression and power_sgd\n"
                        "dtrain: power_sgd: matrix_rank must be at least 1\n"));
}

TEST_CASE("a rank that dies while its gradients are on their way is named") {
  const auto run = [](Session& session) -> std::string {
    WideNet net;
    Ddp model(session, net, with(of_rank(1), 256));
    for (int step = 0; step < 5; ++step) {
      const torch::Tensor loss = model(one_sample(step, session.rank())).pow(2).sum();
      if (session.rank() == 1 && step == 3) ::raise(SIGKILL);
      try {
        loss.backward();
      } catch (const CollectiveError& error) {
        return error.what();
      }
    }
    return "no error";
  };
  const auto outcomes = test::outcomes_of(2, run, /*ends=*/false);
  CHECK(outcomes[1].signal == SIGKILL);
  CHECK_THAT(outcomes[0].said, Catch::StartsWith("dtrain: group 'world (PowerSGD)' (ranks 0, 1): ") &&
                                   Catch::Contains("rank 1 (pid") && Catch::Contains("died"));
}
