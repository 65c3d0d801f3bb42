// Optimizers with state in a file: the same bits as in memory, and what happens when the disk cannot have it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "dtrain/optimizer.h"
#include "strategies/optim/state_file.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/optim/shard_fixtures.h"

using namespace dtrain;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

// Folders are made where the test runs: the one for temporary files may lie in memory.

// Several jobs of a step, and shards that begin at no multiple of anything.
const std::vector<Named>& model_of_many_jobs() {
  static const std::vector<Named> model = {{"embedding.weight", {97, 109}},
                                           {"embedding.bias", {97}},
                                           {"up.weight", {1201, 1009}},
                                           {"up.bias", {1201}},
                                           {"scale", {}},
                                           {"down.weight", {30, 1500}}};
  return model;
}

struct Trained {
  at::Tensor values;
  std::vector<ShardState> state;
};

Trained trained_in(const std::string& folder, ShardedOptimizerOptions options, int steps,
                   at::ScalarType type = at::kFloat) {
  const auto& model = model_of_many_jobs();
  const auto size = size_of(model);
  options.state_folder = folder;
  const ShardRun run = run_of(model, random_flat(size, 1, type), 0, size);
  ShardedOptimizer optimizer(options, {run});
  for (int step = 0; step < steps; ++step) optimizer.step({gradient_of_step(size, step)});
  Trained trained{run.values, optimizer.state()};  // lives on without the optimizer
  return trained;
}

void check_same(const Trained& one, const Trained& other) {
  CHECK(at::equal(one.values, other.values));
  REQUIRE(one.state.size() == other.state.size());
  for (std::size_t i = 0; i < one.state.size(); ++i) {
    CHECK(one.state[i].step == other.state[i].step);
    for (std::size_t k = 0; k < one.state[i].tensors.size(); ++k)
      CHECK(at::equal(one.state[i].tensors[k].second, other.state[i].tensors[k].second));
  }
}

// The descriptor of the state of this process. It has no name.
int state_descriptor(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with(fs::canonical(folder).string()) && target.ends_with("(deleted)"))
      return std::stoi(entry.path().filename().string());
  }
  return -1;
}

}  // namespace

TEST_CASE("state on disk: all optimizers give the bits of state in memory") {
  const TempFolder folder(fs::current_path());
  const std::vector<OptimizerOptions> all = {
      Sgd{.lr = 0.1},
      Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      Adam{.lr = 0.01, .weight_decay = 0.01},
      AdamW{.lr = 0.01},
      Adagrad{.lr = 0.1, .lr_decay = 0.01, .initial_accumulator_value = 0.1},
      Lamb{.lr = 0.1, .weight_decay = 0.01},
      Muon{.lr = 0.02, .ns_steps = 1, .adamw_names = {"embedding"}},
  };
  for (const OptimizerOptions& algorithm : all) {
    CAPTURE(algorithm.index());
    const ShardedOptimizerOptions options{.algorithm = algorithm};
    check_same(trained_in(folder.path(), options, 3), trained_in("", options, 3));
  }
}

TEST_CASE("state on disk: groups, types, and several runs without a gradient") {
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);  // OpenMP's threads wait for each other for long on a machine that others use
  const TempFolder folder(fs::current_path());
  ShardedOptimizerOptions options{.algorithm = AdamW{.lr = 0.01}};
  options.groups = {{.names = {"bias"}, .lr_factor = 0.5}, {.dims_max = 1, .weight_decay = 0.0}};
  check_same(trained_in(folder.path(), options, 2), trained_in("", options, 2));
  options.state_dtype = at::kFloat;
  check_same(trained_in(folder.path(), options, 2, at::kBFloat16), trained_in("", options, 2, at::kBFloat16));
  for (const OptimizerOptions& algorithm : {OptimizerOptions(AdamW{}), OptimizerOptions(Lamb{.lr = 0.1})}) {
    options.algorithm = algorithm;
    options.state_dtype = at::kBFloat16;
    check_same(trained_in(folder.path(), options, 2), trained_in("", options, 2));
  }
  const auto runs = [](const std::string& state_folder) {
    std::vector<ShardRun> all;
    for (int i = 0; i < 20; ++i) {
      const std::vector<Named> one = {{"p" + std::to_string(i), {10'007 + i}}};
      all.push_back(run_of(one, random_flat(size_of(one), i), 0, size_of(one)));
    }
    ShardedOptimizer optimizer({.algorithm = Adam{.lr = 0.01}, .state_folder = state_folder}, all);
    for (int step = 0; step < 6; ++step) {
      std::vector<at::Tensor> gradients;
      for (int i = 0; i < 20; ++i)
        gradients.push_back((i + step) % 3 == 0 ? at::Tensor() : gradient_of_step(10'007 + i, step));
      optimizer.step(gradients);
    }
    std::vector<at::Tensor> values;
    for (const ShardRun& run : all) values.push_back(run.values);
    return Trained{at::cat(values), optimizer.state()};
  };
  check_same(runs(folder.path()), runs(""));
  torch::set_num_threads(threads);
}

TEST_CASE("state on disk: what is loaded is used, also by shards with different numbers of updates") {
  const TempFolder folder(fs::current_path());
  const ShardedOptimizerOptions options{.algorithm = AdamW{.lr = 0.01}};
  const auto before = trained_in("", options, 2);
  const auto go_on = [&](const std::string& state_folder) {
    const auto& model = model_of_many_jobs();
    const auto size = size_of(model);
    const ShardRun run = run_of(model, before.values, 0, size);
    ShardedOptimizer optimizer({.algorithm = options.algorithm, .state_folder = state_folder}, {run});
    optimizer.step({gradient_of_step(size, 7)});  // to be overwritten
    run.values.copy_(before.values);
    for (std::size_t i = 0; i < before.state.size(); ++i) {
      ShardState saved = before.state[i];
      saved.step += static_cast<std::int64_t>(i % 2);  // the run is divided
      CHECK(optimizer.load(saved) == saved.count);
    }
    for (int step = 2; step < 4; ++step) optimizer.step({gradient_of_step(size, step)});
    return Trained{run.values, optimizer.state()};
  };
  check_same(go_on(folder.path()), go_on(""));
}

TEST_CASE("state on disk: the file has no name, and goes with the optimizer and its state") {
  const TempFolder folder(fs::current_path());
  {
    const auto trained = trained_in(folder.path(), {.algorithm = AdamW{}}, 1);
    CHECK(fs::is_empty(folder.path()));
    CHECK(state_descriptor(folder.path()) >= 0);
    CHECK(trained.state[0].tensors[0].second.abs().sum().item<float>() > 0);
  }
  CHECK(state_descriptor(folder.path()) == -1);
}

TEST_CASE("state on disk: a folder that cannot have it is an error with its name and the size") {
  const auto made = [](const std::string& folder) {
    ShardedOptimizer({.algorithm = AdamW{}, .state_folder = folder},
                     {run_of({{"a", {1 << 20}}}, at::zeros({1 << 20}), 0, 1 << 20)});
  };
  const TempFolder folder(fs::current_path());
  CHECK_THROWS_WITH(made(folder / "none"),
                    Contains("none'") && Contains("(8 MiB): No such file or directory; name a folder"));
  CHECK_THROWS_AS(made(folder / "none"), ConfigError);
  CHECK_THROWS_WITH(made("/dev/shm"), Contains("state_folder '/dev/shm'") && Contains("in memory itself (tmpfs)"));
  const at::Tensor elsewhere = at::zeros({10}, at::kMeta);
  CHECK_THROWS_WITH(ShardedOptimizer({.algorithm = AdamW{}, .state_folder = folder.path()},
                                     {{elsewhere, {{"a", {10}, 0, elsewhere}}}}),
                    Contains("is for parameters on a CPU, and 'a' is on meta; leave it out"));
  struct statfs facts {};
  REQUIRE(::statfs(folder.path().c_str(), &facts) == 0);
  const std::uint64_t free = facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize);
  CHECK_THROWS_WITH(StateFile::make(folder.path(), free + (std::uint64_t{64} << 30)),
                    Contains("are free there; make room"));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{1 << 20, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string said = "nothing";
  try {
    made(folder.path());
  } catch (const ConfigError& error) {
    said = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_THAT(said, Contains("(8 MiB): the limit of a file's size is 1 MiB (`ulimit -f`)"));
}

TEST_CASE("state on disk: a disk that fails in a step is an error, and stays one") {
  const TempFolder folder(fs::current_path());
  const std::int64_t size = 5'000'000;
  const std::vector<Named> model = {{"a", {size}}};
  ShardedOptimizer optimizer({.algorithm = AdamW{}, .state_folder = folder.path()},
                             {run_of(model, at::zeros({size}), 0, size)});
  optimizer.step({at::ones({size})});
  const int fd = state_descriptor(folder.path());
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, 20 << 20) == 0);  // the second half of the state is gone
  CHECK_THROWS_WITH(optimizer.step({at::ones({size})}), Contains("cannot be read: its file is too short"));
  CHECK_THROWS_WITH(optimizer.step({at::ones({size})}), Contains("an earlier step of the optimizer has failed"));
}
