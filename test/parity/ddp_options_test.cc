// Ddp's options: parameters that are not used, static graphs, compression, hooks, and ranks that have diverged.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

using namespace dtrain;
using test::on_ranks;

namespace {

// Two branches, of which a forward takes those that it is told; the first layer is used twice.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    in = register_module("in", torch::nn::Linear(6, 6));
    left = register_module("left", torch::nn::Linear(6, 3));
    right = register_module("right", torch::nn::Linear(6, 3));
    to(torch::kDouble);
  }
  std::map<std::string, std::vector<torch::Tensor>> forward(const torch::Tensor& x, bool go_left, bool go_right) {
    const torch::Tensor h = torch::tanh(in(torch::tanh(in(x))));
    std::map<std::string, std::vector<torch::Tensor>> out;
    if (go_left) out["left"] = {left(h)};
    if (go_right) out["right"] = {right(h)};
    return out;
  }
  torch::nn::Linear in{nullptr}, left{nullptr}, right{nullptr};
};
TORCH_MODULE(Branches);

torch::Tensor squares(const std::map<std::string, std::vector<torch::Tensor>>& out) {
  torch::Tensor sum = torch::zeros({}, torch::kDouble);
  for (const auto& [name, tensors] : out) sum = sum + tensors.at(0).pow(2).sum();
  return sum;
}

// Between the gradients of two of them.
double difference(const Branches& one, const Branches& other) {
  const auto or_zero = [](const torch::Tensor& p) { return p.grad().defined() ? p.grad() : torch::zeros_like(p); };
  double largest = 0;
  const auto ours = one->parameters();
  const auto theirs = other->parameters();
  for (std::size_t i = 0; i < ours.size(); ++i)
    largest = std::max(largest, (or_zero(ours[i]) - or_zero(theirs[i])).abs().max().item<double>());
  return largest;
}

// The largest difference over `steps` updates between a Ddp model on this rank's samples and a plain one on those of
// all ranks. branches(step, rank): which branches that rank takes.
using Branching = std::function<std::pair<bool, bool>(int step, int rank)>;
double differs(Session& session, const DdpOptions& options, int steps, const Branching& branches) {
  torch::manual_seed(session.rank());
  Branches shared;
  Ddp model(session, shared, options);
  torch::manual_seed(0);
  Branches plain;
  torch::optim::SGD shared_sgd(shared->parameters(), 0.05);
  torch::optim::SGD plain_sgd(plain->parameters(), 0.05);
  double largest = 0;
  for (int step = 0; step < steps; ++step) {
    model.zero_grad();
    for (torch::Tensor& parameter : plain->parameters()) parameter.mutable_grad().reset();
    for (int rank = 0; rank < session.world_size(); ++rank) {
      torch::manual_seed(100 * step + rank);
      const torch::Tensor x = torch::randn({4, 6}, torch::kDouble);
      const auto [left, right] = branches(step, rank);
      (squares(plain->forward(x, left, right)) / session.world_size()).backward();
      if (rank == session.rank()) squares(model(x, left, right)).backward();
    }
    largest = std::max(largest, difference(shared, plain));
    shared_sgd.step();
    plain_sgd.step();
  }
  return largest;
}

std::string below(double value, double bound) { return value < bound ? "equal" : fmt::format("{} apart", value); }

// One update of a model of float parameters, and how far its gradients are from the average of the ranks'.
double error_of_one_step(Session& session, const DdpOptions& options) {
  torch::manual_seed(0);
  torch::nn::Linear shared(50, 20);
  Ddp model(session, shared, options);
  torch::Tensor expected = torch::zeros_like(shared->weight);
  for (int rank = 0; rank < session.world_size(); ++rank) {
    torch::manual_seed(50 + rank);
    const torch::Tensor x = torch::randn({8, 50});
    const torch::Tensor grad = torch::autograd::grad({shared->forward(x).pow(2).sum()}, {shared->weight})[0];
    expected += grad / session.world_size();
    if (rank == session.rank()) model(x).pow(2).sum().backward();
  }
  return ((shared->weight.grad() - expected).abs().max() / expected.abs().max()).item<double>();
}

}  // namespace

TEST_CASE("parameters that some forwards or some ranks leave out") {
  const int ranks = GENERATE(1, 2, 3);
  const bool views = GENERATE(false, true);
  CAPTURE(ranks, views);
  const auto said = on_ranks(ranks, [&](Session& session) {
    DdpOptions options;
    options.find_unused_parameters = true;
    options.gradient_as_bucket_view = views;
    options.bucket_bytes = 256;
    options.first_bucket_bytes = 64;
    const double largest = differs(session, options, 8, [](int step, int rank) {
      return std::pair{(step + rank) % 2 == 0, (step + rank) % 3 == 0 || (step + rank) % 2 == 1};
    });
    return below(largest, 1e-9);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks), "equal"));
}

TEST_CASE("outputs that the loss leaves out") {
  const int ranks = GENERATE(1, 2, 3);
  CAPTURE(ranks);
  const auto said = on_ranks(ranks, [](Session& session) {
    DdpOptions options;
    options.find_unused_parameters = true;
    options.bucket_bytes = 256;
    options.first_bucket_bytes = 64;
    torch::manual_seed(1);
    Branches shared;
    Ddp model(session, shared, options);
    torch::manual_seed(1);
    Branches plain;
    double largest = 0;
    for (int step = 0; step < 6; ++step) {
      model.zero_grad();
      plain->zero_grad();
      for (int rank = 0; rank < session.world_size(); ++rank) {
        torch::manual_seed(100 * step + rank);
        const torch::Tensor x = torch::randn({4, 6}, torch::kDouble);
        const auto loss = [&](std::map<std::string, std::vector<torch::Tensor>> out) {
          torch::Tensor& used = out[(step + rank) % 2 == 0 ? "left" : "right"].at(0);
          return used.mul_(2).pow(2).sum();  // in place too
        };
        (loss(plain->forward(x, true, true)) / session.world_size()).backward();
        if (rank == session.rank()) loss(model(x, true, true)).backward();
      }
      largest = std::max(largest, difference(shared, plain));
    }
    return below(largest, 1e-9);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks), "equal"));
}

TEST_CASE("outputs of which one is made of another are forgotten without a backward") {
  struct FeaturesImpl : torch::nn::Module {
    FeaturesImpl() { last = register_module("last", torch::nn::Linear(6, 6)); }
    std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      const torch::Tensor features = torch::tanh(last(x));
      kept = features.getIntrusivePtr();
      return {features, last(features), {}};  // and none, as MultiheadAttention's weights may be
    }
    torch::nn::Linear last{nullptr};
    c10::weak_intrusive_ptr<c10::TensorImpl> kept{c10::intrusive_ptr<c10::TensorImpl>()};
  };
  const auto said = on_ranks(1, [](Session& session) -> std::string {
    DdpOptions options;
    options.find_unused_parameters = true;
    Ddp model(session, std::make_shared<FeaturesImpl>(), options);
    { const auto outputs = model(torch::ones({2, 6})); }
    return model->kept.expired() ? "forgotten" : "kept";
  });
  CHECK(said.at(0) == "forgotten");
}

TEST_CASE("a static graph learns once what is used, and how often") {
  const int ranks = GENERATE(1, 2, 3);
  const bool find = GENERATE(false, true);
  CAPTURE(ranks, find);
  const auto said = on_ranks(ranks, [&](Session& session) {
    DdpOptions options;
    options.static_graph = true;
    options.find_unused_parameters = find;
    options.bucket_bytes = 256;
    options.first_bucket_bytes = 64;
    return below(differs(session, options, 6, [](int, int) { return std::pair{true, false}; }), 1e-9);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks), "equal"));
}

TEST_CASE("without either, a parameter that is left out is an error of the next forward") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    try {
      differs(session, {}, 3, [](int, int) { return std::pair{true, false}; });
    } catch (const std::exception& error) {
      return std::string(error.what()).find("unused") != std::string::npos ? "told" : error.what();
    }
    return "not told";
  });
  CHECK(said == std::vector<std::string>{"told", "told"});
}

TEST_CASE("an output that cannot be looked into is named where it must be") {
  struct Opaque {
    torch::Tensor y;
  };
  struct OddImpl : torch::nn::Module {
    OddImpl() { layer = register_module("layer", torch::nn::Linear(2, 2)); }
    Opaque forward(const torch::Tensor& x) { return {layer(x)}; }
    torch::nn::Linear layer{nullptr};
  };
  const auto said = on_ranks(1, [](Session& session) -> std::string {
    Ddp plain(session, std::make_shared<OddImpl>());
    plain(torch::ones({1, 2})).y.sum().backward();
    DdpOptions options;
    options.find_unused_parameters = true;
    Ddp model(session, std::make_shared<OddImpl>(), options);
    try {
      model(torch::ones({1, 2}));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "taken";
  });
  CHECK_THAT(said.at(0), Catch::Contains("collect_tensors"));
}

TEST_CASE("gradients that go over the wire in 16 bits are those of 32 within their precision") {
  const int ranks = GENERATE(1, 2, 3);
  CAPTURE(ranks);
  const auto errors = on_ranks(ranks, [](Session& session) {
    std::vector<double> found;
    for (const auto compression : {GradientCompression::none, GradientCompression::fp16, GradientCompression::bf16}) {
      DdpOptions options;
      options.compression = compression;
      found.push_back(error_of_one_step(session, options));
    }
    const bool fp16 = found[1] > 1e-7 && found[1] < 2e-3;
    const bool bf16 = found[2] > found[1] && found[2] < 1.6e-2;
    return found[0] < 1e-6 && fp16 && bf16 ? std::string("as expected") : fmt::format("{}", found);
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks), "as expected"));
}

TEST_CASE("a hook of the user's own reduces the buckets") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    int buckets = 0;
    DdpOptions options;
    options.hook = [&](c10d::GradBucket& bucket) {
      ++buckets;
      std::vector<at::Tensor> sum{bucket.getBufferRef()};
      return session.group()->allreduce(sum)->getFuture()->then(
          [](c10::ivalue::Future& future) -> c10::IValue {
            const at::NoGradGuard no_grad;
            return future.value().toTensorVector().at(0).mul_(10);
          },
          c10::TensorType::get());
    };
    torch::nn::Linear layer(3, 1);
    Ddp model(session, layer, options);
    model(torch::ones({1, 3})).sum().backward();
    const bool tenfold = torch::equal(layer->weight.grad(), torch::full({1, 3}, 20.0F));
    options.compression = GradientCompression::fp16;
    try {
      Ddp both(session, layer, options);
    } catch (const std::exception& error) {
      return tenfold && buckets == 1 ? error.what() : "wrong gradients";
    }
    return "took both";
  });
  for (const std::string& one : said) CHECK_THAT(one, Catch::Contains("one of hook, compression and power_sgd"));
}

TEST_CASE("ranks that have fewer batches join the others, and all end with the same model") {
  const int ranks = GENERATE(1, 2, 3);
  const bool over_active = GENERATE(false, true);
  const bool find = GENERATE(false, true);
  CAPTURE(ranks, over_active, find);
  const auto said = on_ranks(ranks, [&](Session& session) {
    const auto steps_of = [](int rank) { return rank == 0 ? 2 : rank == 1 ? 5 : 0; };
    DdpOptions options;
    options.find_unused_parameters = find;
    options.bucket_bytes = 256;
    options.first_bucket_bytes = 64;
    torch::manual_seed(0);
    Branches shared, plain;
    Ddp model(session, shared, options);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < plain->parameters().size(); ++i)
        plain->parameters()[i].copy_(shared->parameters()[i]);
    }
    torch::optim::SGD shared_sgd(shared->parameters(), 0.05);
    torch::optim::SGD plain_sgd(plain->parameters(), 0.05);
    const auto samples = [](int step, int rank) {
      torch::manual_seed(100 * step + rank);
      return torch::randn({4, 6}, torch::kDouble);
    };
    model.join(
        [&] {
          for (int step = 0; step < steps_of(session.rank()); ++step) {
            model.zero_grad();
            const torch::Tensor x = samples(step, session.rank());
            if (step == 1) {
              const auto pause = model.no_sync();
              squares(model(x, true, true)).backward();
            }
            squares(model(x, true, true)).backward();
            shared_sgd.step();
          }
        },
        over_active);
    for (int step = 0; step < 5; ++step) {
      std::vector<int> active;
      for (int rank = 0; rank < ranks; ++rank)
        if (step < steps_of(rank)) active.push_back(rank);
      if (active.empty()) break;
      plain_sgd.zero_grad();
      const auto divisor = over_active ? static_cast<double>(active.size()) : ranks;
      for (const int rank : active)
        (squares(plain->forward(samples(step, rank), true, true)) * (step == 1 ? 2 : 1) / divisor).backward();
      plain_sgd.step();
    }
    double largest = 0;
    for (std::size_t i = 0; i < plain->parameters().size(); ++i)
      largest = std::max(largest, (plain->parameters()[i] - shared->parameters()[i]).abs().max().item<double>());
    model.verify_sync();
    return below(largest, 1e-9);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks), "equal"));
}

TEST_CASE("ranks join with a static graph, and who has not learnt it says so") {
  const bool find = GENERATE(false, true);
  const int least = GENERATE(0, 1);
  const auto run = [&](Session& session) -> std::string {
    DdpOptions options;
    options.static_graph = true;
    options.find_unused_parameters = find;
    torch::nn::Linear layer(2, 1);
    Ddp model(session, layer, options);
    const int steps = session.rank() == 0 ? 4 : least;
    try {
      model.join([&] {
        for (int step = 0; step < steps; ++step) model(torch::ones({1, 2})).sum().backward();
      });
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const CollectiveError&) {
      return "without the other";
    }
    model.verify_sync();
    return "together";
  };
  const auto said = test::said_by(test::outcomes_of(2, run, least == 1));
  if (least == 1) {
    CHECK(said == std::vector<std::string>{"together", "together"});
  } else {
    CHECK(said[0] == "without the other");
    CHECK_THAT(said[1], Catch::Contains("Ddp::join with static_graph: this rank must take a step first"));
  }
}

TEST_CASE("joining over the ranks that still train is refused where a compression divides by all") {
  const auto said = on_ranks(1, [](Session& session) -> std::string {
    DdpOptions options;
    options.compression = GradientCompression::fp16;
    torch::nn::Linear layer(2, 1);
    Ddp model(session, layer, options);
    try {
      model.join([] {}, true);
    } catch (const ConfigError& error) {
      model.join([] {});
      return error.what();
    }
    return "nothing";
  });
  CHECK_THAT(said.at(0), Catch::Contains("compression and power_sgd divide by all ranks"));
}

TEST_CASE("what a rank throws while others join comes out of join") {
  const auto said = on_ranks(1, [](Session& session) -> std::string {
    torch::nn::Linear layer(2, 1);
    Ddp model(session, layer);
    try {
      model.join([] { throw std::runtime_error("no more"); });
    } catch (const std::runtime_error& error) {
      model.join([&] { model(torch::ones({1, 2})).sum().backward(); });
      return error.what();
    }
    return "nothing";
  });
  CHECK(said.at(0) == "no more");
}

TEST_CASE("buffers come from a rank that still trains") {
  const auto said = on_ranks(2, [](Session& session) {
    torch::nn::BatchNorm1d norm(3);
    Ddp model(session, norm);
    model.join([&] {
      for (int step = 0; step < (session.rank() == 0 ? 1 : 4); ++step) model(torch::randn({8, 3}) + 5).sum().backward();
    });
    return fmt::format("{}", norm->num_batches_tracked.item<std::int64_t>());
  });
  CHECK(said == std::vector<std::string>{"4", "4"});
}

TEST_CASE("ranks whose parameters differ in one bit are named on every rank, and those that do not go on") {
  const auto said = on_ranks(3, [](Session& session) -> std::string {
    torch::nn::Sequential net(torch::nn::Linear(5, 7), torch::nn::Linear(7, 3));
    DdpOptions options;
    options.verify_every = 2;
    Ddp model(session, std::shared_ptr<torch::nn::SequentialImpl>(net.ptr()), options);
    std::string found;
    for (int step = 0; step < 6; ++step) {
      if (step == 3 && session.rank() == 2) {
        const torch::NoGradGuard no_grad;
        net->parameters()[2].view(-1)[20].mul_(1 + 1.2e-7);
      }
      try {
        model(torch::ones({2, 5})).sum().backward();
      } catch (const DivergedError& error) {
        found += fmt::format("{} {} {}; ", step, error.parameter(), fmt::join(error.ranks(), ","));
        const torch::NoGradGuard no_grad;
        for (torch::Tensor& parameter : net->parameters()) session.broadcast(parameter);
      }
    }
    model.verify_sync();
    return found;
  });
  for (const std::string& one : said) CHECK(one == "4 1.weight 2; ");
}

TEST_CASE("a frozen parameter that differs is found too") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    torch::nn::Sequential net(torch::nn::Linear(5, 7), torch::nn::Linear(7, 3));
    net->parameters()[0].set_requires_grad(false);
    Ddp model(session, std::shared_ptr<torch::nn::SequentialImpl>(net.ptr()));
    model.verify_sync();  // the first rank's have come to all, frozen ones too
    if (session.rank() == 1) net->parameters()[0].view(-1)[3].add_(1);
    try {
      model.verify_sync();
    } catch (const DivergedError& error) {
      return fmt::format("{} {}", error.parameter(), fmt::join(error.ranks(), ","));
    }
    return "the same";
  });
  CHECK(said == std::vector<std::string>{"0.weight 1", "0.weight 1"});
}
