// Ddp against a single process on the whole batch, in double precision: the gradients are the same, step after step.
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/unit/strategies/free_port.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::by_hand, test::quick;

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3)));
    first = register_module("first", torch::nn::Linear(6 * 36, 40));
    second = register_module("second", torch::nn::Linear(40, 5));
    unused = register_parameter("frozen", torch::ones({3}), /*requires_grad=*/false);
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(torch::tanh(conv(x)).flatten(1)))); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor unused;
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor x, y;
  Batch part(std::int64_t begin, std::int64_t end) const { return {x.slice(0, begin, end), y.slice(0, begin, end)}; }
};

// The same on every rank. 13 samples: no world size of this test divides them.
Batch batch_of(int step) {
  torch::manual_seed(1000 + step);
  return {torch::randn({13, 1, 8, 8}, torch::kDouble), torch::randn({13, 5}, torch::kDouble)};
}

Batch share(const Batch& all, const Session& session) {
  const auto n = all.x.size(0);
  return all.part(n * session.rank() / session.world_size(), n * (session.rank() + 1) / session.world_size());
}

template <class Model>
torch::Tensor squared_error(Model& model, const Batch& batch) {
  return (model(batch.x) - batch.y).pow(2).sum();
}

double largest_difference(torch::nn::Module& a, torch::nn::Module& b) {
  double largest = 0;
  const auto left = a.parameters();
  const auto right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!left[i].requires_grad()) continue;
    largest = std::max(largest, (left[i].grad() - right[i].grad()).abs().max().item<double>());
  }
  return largest;
}

// 20 updates of a Ddp model on this rank's share beside a plain model on the whole batch.
double train_beside(Session& session, const DdpOptions& options, bool accumulate) {
  torch::manual_seed(session.rank());  // Ddp must copy rank 0's weights to all
  Net shared;
  Ddp model(session, shared, options);
  torch::manual_seed(0);
  Net plain;
  torch::optim::SGD shared_sgd(shared->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  torch::optim::SGD plain_sgd(plain->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const double scale = session.world_size() / 13.0;
  double largest = 0;
  for (int step = 0; step < 20; ++step) {
    const Batch all = batch_of(step);
    const Batch extra = batch_of(step + 500);
    model.zero_grad();
    plain->zero_grad();
    if (accumulate) {
      const auto pause = model.no_sync();
      (squared_error(model, share(extra, session)) * scale).backward();
      (squared_error(plain, extra) / 13.0).backward();
    }
    (squared_error(model, share(all, session)) * scale).backward();
    (squared_error(plain, all) / 13.0).backward();
    largest = std::max(largest, largest_difference(*shared, *plain));
    shared_sgd.step();
    plain_sgd.step();
  }
  return largest;
}

double train(const torch::Tensor& x, const torch::Tensor& y) {
  auto session = dtrain::init();  // joins the job; alone, the world is this process
  const torch::Device device = session.device();
  dtrain::Parallel model(session, [&] { return torch::nn::Linear(x.size(1), 1); });  // rank 0's weights on every rank
  auto optimizer = model.optimizer(dtrain::Sgd{.lr = 0.1});
  dtrain::BatchSampler sampler(
      {.dataset_size = x.size(0), .global_batch_size = 32, .rank = session.rank(), .world_size = session.world_size()});
  torch::Tensor sum;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    sampler.set_epoch(epoch);
    for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
      const torch::Tensor mine = torch::tensor(sampler.local_indices(batch));
      model.zero_grad();
      const torch::Tensor errors = model(x.index_select(0, mine).to(device)) - y.index_select(0, mine).to(device);
      sum = errors.pow(2).sum();
      // Gradients are averaged over the ranks, whose shares may differ by a sample: this makes it the batch's mean.
      (sum * session.world_size() / sampler.global_size(batch)).backward();
      model.step(optimizer);
    }
  }
  sum = sum.detach();
  session.all_reduce(sum);  // of the last batch, over all ranks
  session.shutdown();
  return sum.item<double>();
}

double train_with_ddp(const torch::Tensor& x, const torch::Tensor& y) {
  auto session = dtrain::init();
  dtrain::Ddp model(session, torch::nn::Linear(x.size(1), 1));  // rank 0's weights on every rank
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  dtrain::BatchSampler sampler(
      {.dataset_size = x.size(0), .global_batch_size = 32, .rank = session.rank(), .world_size = session.world_size()});
  torch::Tensor sum;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    sampler.set_epoch(epoch);
    for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
      const torch::Tensor mine = torch::tensor(sampler.local_indices(batch));
      model.zero_grad();
      const torch::Tensor errors = model(x.index_select(0, mine)) - y.index_select(0, mine);
      sum = errors.pow(2).sum();
      // Ddp averages over the ranks, whose shares may differ by a sample: this makes it the global batch's mean.
      (sum * session.world_size() / sampler.global_size(batch)).backward();
      optimizer.step();
    }
  }
  sum = sum.detach();
  session.all_reduce(sum);  // of the last batch, over all ranks
  session.shutdown();
  return sum.item<double>();
}

std::string text_of(const std::string& path) {
  const char* root = std::getenv("DTRAIN_SOURCE_DIR");  // set by ctest
  std::ifstream file(std::string(root ? root : ".") + "/" + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Loop {
  const char* page;
  double (*train)(const torch::Tensor& x, const torch::Tensor& y);
  const char* strategy;
};

}  // namespace

TEST_CASE("gradients of 1, 2 and 4 ranks are those of one process on the whole batch") {
  const int ranks = GENERATE(1, 2, 4);
  const bool views = GENERATE(false, true);
  const bool accumulate = GENERATE(false, true);
  CAPTURE(ranks, views, accumulate);
  const std::uint16_t port = test::free_port();
  const auto outcomes = test::run_ranks(ranks, [&](int rank) {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, ranks, port), quick());
    DdpOptions options;
    options.gradient_as_bucket_view = views;
    options.bucket_bytes = 4096;  // several buckets, rebuilt after the first step
    options.first_bucket_bytes = 512;
    const double largest = train_beside(session, options, accumulate);
    session.shutdown();
    return std::to_string(largest < 1e-9) + (largest < 1e-9 ? "" : " " + std::to_string(largest));
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "1");
}

TEST_CASE("the loops in the documentation are those above, and give 1, 2 and 3 ranks the same loss") {
  const auto loop = GENERATE(values<Loop>({{"first-loop.md", train, "ddp"},
                                           {"first-loop.md", train, "fsdp"},
                                           {"data-parallel.md", train_with_ddp, "ddp"}}));
  CAPTURE(loop.page, loop.strategy);
  const std::string page = text_of(std::string("docs/training/") + loop.page);
  const std::size_t begin = page.find("```cpp\ndouble train");
  REQUIRE(begin != std::string::npos);
  const std::string shown = page.substr(begin + 7, page.find("```", begin + 7) - begin - 7);
  CHECK(shown.size() > 500);
  CHECK(text_of("test/parity/ddp_test.cc").find(shown) != std::string::npos);

  std::vector<double> losses;
  for (const int ranks : {1, 2, 3}) {
    const std::uint16_t port = test::free_port();
    const auto outcomes = test::run_ranks(ranks, [&](int rank) {
      torch::set_num_threads(1);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
      ::setenv("DTRAIN_STRATEGY", loop.strategy, 1);
      torch::manual_seed(7);
      const torch::Tensor x = torch::randn({100, 3});  // the last batch has 4 samples
      const torch::Tensor y = x.matmul(torch::tensor({{1.0F}, {-2.0F}, {0.5F}})) + torch::rand({100, 1});
      return std::to_string(loop.train(x, y));
    });
    test::require_all_returned(outcomes);
    for (const auto& outcome : outcomes) losses.push_back(std::stod(outcome.said));
  }
  for (const double loss : losses) CHECK(loss == Approx(losses[0]).epsilon(1e-4));
  CHECK(losses[0] < 1.0);
}

TEST_CASE("buffers follow rank 0") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = test::run_ranks(2, [&](int rank) -> std::string {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, 2, port), quick());
    torch::nn::BatchNorm1d norm(3);
    Ddp ddp(session, norm);
    for (int i = 0; i < 3; ++i) ddp(torch::randn({8, 3}) + rank * 10).sum().backward();
    ddp(torch::zeros({8, 3})).sum().backward();
    auto mean = norm->running_mean.clone();
    session.broadcast(mean, 1);
    const bool same = torch::allclose(mean, norm->running_mean);
    session.shutdown();
    return same && mean.abs().max().item<float>() < 2 ? "same" : "different";
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "same");
}

TEST_CASE("a rank that dies during training makes backward of the others throw and name it") {
  const auto before = test::shared_memory_names();
  const std::uint16_t port = test::free_port();
  const auto outcomes = test::run_ranks(2, [&](int rank) -> std::string {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, 2, port), quick());
    Net net;
    Ddp model(session, net);
    for (int step = 0; step < 5; ++step) {
      const torch::Tensor loss = squared_error(model, share(batch_of(step), session));
      if (rank == 1 && step == 3) ::raise(SIGKILL);
      try {
        loss.backward();
      } catch (const std::exception& error) {
        return std::string(dynamic_cast<const CollectiveError*>(&error) ? "CollectiveError: " : "other: ") +
               error.what();
      }
    }
    return "no error";
  });
  CHECK(outcomes[1].signal == SIGKILL);
  CHECK_THAT(outcomes[0].said,
             Catch::StartsWith("CollectiveError: ") && Catch::Contains("rank 1 (pid") && Catch::Contains("died"));
  CHECK(test::shared_memory_names() == before);
}
