// Checkpoints that a thread copies while training goes on: to the bit those of the step of the call.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWide = 768;

struct WideBlockImpl : torch::nn::Module {
  WideBlockImpl()
      : linear(register_module("linear", torch::nn::Linear(kWide, kWide))),
        norm(register_module("norm", torch::nn::BatchNorm1d(kWide))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + torch::tanh(norm(linear(x))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
};
DTRAIN_UNIT(WideBlock);

// Copying its values takes milliseconds.
struct WideNetImpl : torch::nn::Module {
  WideNetImpl() {
    for (int i = 0; i < 4; ++i) blocks->push_back(WideBlock());
    register_module("blocks", blocks);
  }
  torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(WideNet);

struct AsyncJob {
  Session& session;
  std::string folder;
  std::optional<Parallel<WideNetImpl>> model{};
  std::optional<ShardedOptimizer> optimizer{};
  std::optional<Checkpoints> plain{}, async{};

  AsyncJob(Session& its, const Strategy& strategy, std::string where) : session(its), folder(std::move(where)) {
    torch::manual_seed(session.rank());
    model.emplace(
        session, [] { return WideNet(); }, ParallelOptions{.strategy = strategy});
    optimizer.emplace(model->optimizer(AdamW{.lr = 0.01}));
    plain.emplace(session.world(), folder + "/plain", CheckpointOptions{.sync = false});
    async.emplace(session.world(), folder + "/async", CheckpointOptions{.sync = false});
    for (int i = 0; i < 2; ++i) train();
  }
  void learn() {
    model->zero_grad();
    (*model)(torch::randn({4, kWide})).square().mean().backward();
  }
  void train() {
    learn();
    model->step(*optimizer);
  }
  // The same step twice: at once, and in the background.
  PendingCopy save(std::int64_t step) {
    learn();  // so that a step may follow without delay
    model->save(*plain, step, *optimizer, R"({"a": 1})");
    return model->save_async(*async, step, *optimizer, R"({"a": 1})");
  }
  void change_buffers() {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& each : model->module().buffers()) each.add_(1);
  }
  // What the two have of a step: "same", or the files that differ.
  std::string compared(std::int64_t step) const {
    std::string said;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "dtrain.json"}) {
      const std::string name = fmt::format("step-{:08}/{}", step, file);
      const std::string a = bytes_in("plain/" + name), b = bytes_in("async/" + name);
      if (a.empty() || a != b) said += fmt::format("{} differs; ", file);
    }
    return said.empty() ? "same" : said;
  }
  std::string bytes_in(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder + "/" + name, std::ios::binary).rdbuf();
    return text.str();
  }
};

std::vector<Way> ways_to_save(const std::string& folder) {
  using Kind = StrategyKind;
  return {{"ddp", {.kind = Kind::ddp}},
          {"zero1", {.kind = Kind::zero1}},
          {"zero2", {.kind = Kind::zero2}},
          {"fsdp", {.kind = Kind::fsdp}},
          {"fsdp, copies", {.kind = Kind::fsdp, .one_copy = false}},
          {"zero2, state on disk", {.kind = Kind::zero2, .state_folder = folder}}};
}

}  // namespace

TEST_CASE("a save in the background is that of the step of its call, while training goes on") {
  const TempFolder folder(fs::current_path());
  int number = 0;
  for (const Way& way : ways_to_save(folder.path())) {
    INFO(way.name);
    const std::string where = folder / std::to_string(number++);
    const auto said = on_ranks(2, [&](Session& session) -> std::string {
      AsyncJob job(session, way.strategy, where);
      std::string done;
      for (const std::int64_t step : {2, 4, 6}) {  // the third one finds the second one in flight
        PendingCopy copy = job.save(step);
        job.change_buffers();
        job.model->step(*job.optimizer);
        done += copy.is_complete() ? "copied " : "copying ";
        job.train();
        if (step == 2) job.async->wait();
      }
      while (!job.async->poll()) {
      }
      session.barrier();
      return done + job.compared(2) + " " + job.compared(4) + " " + job.compared(6);
    });
    for (const std::string& each : said) CHECK(each == "copied copied copied same same same");
  }
}

TEST_CASE("whatever changes parameters or state waits for the copy") {
  const TempFolder folder;
  struct Change {
    const char* name;
    std::function<void(AsyncJob&)> run;
  };
  const auto zeroed = [](const std::vector<torch::Tensor>& tensors) {
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& each : tensors) at::Tensor(each).zero_();
  };
  const std::vector<Change> changes{
      {"a load", [](AsyncJob& job) { job.model->load(*job.plain, *job.optimizer); }},
      {"weights",
       [](AsyncJob& job) { job.model->load_weights(job.folder + "/first/step-00000001/model.safetensors"); }},
      {"an average swapped in",
       [](AsyncJob& job) {
         Ema average(job.model->runs());
         average.update();
         job.model->step([&] {
           for (const at::Tensor& each : average.averages()) at::Tensor(each).zero_();
           average.swap_in();
         });
       }},
      {"a load of the optimizer",
       [](AsyncJob& job) {
         for (ShardState& each : job.optimizer->state()) {
           for (auto& [name, tensor] : each.tensors) tensor = torch::ones_like(tensor);
           job.optimizer->load(each);
         }
       }},
      {"a step of the optimizer", [](AsyncJob& job) { job.optimizer->step(job.model->gradients()); }},
      {"whole parameters, written by the program",
       [&](AsyncJob& job) {
         const auto full = job.model->full_parameters();
         if (job.model->strategy().kind == StrategyKind::ddp) zeroed(job.model->module().parameters());
       }},
      {"the end of the Parallel",
       [&](AsyncJob& job) {
         const auto parameters = job.model->parameters();
         job.model.reset();
         zeroed(parameters);
       }},
      {"another save, elsewhere",
       [](AsyncJob& job) {
         Checkpoints other(job.session.world(), job.folder + "/other", {.sync = false});
         job.model->save_async(other, 3, *job.optimizer);
         job.model->step(*job.optimizer);
         other.wait();
       }},
      {"another Checkpoints in the place of the one that saves",
       [](AsyncJob& job) {
         Checkpoints moved = std::move(*job.async);
         job.model->step(*job.optimizer);
         job.async.emplace(std::move(moved));
       }},
      {"the end of the optimizer", [](AsyncJob& job) { job.optimizer.reset(); }},
      {"an exception in a forward, then a step", [](AsyncJob& job) {
         CHECK_THROWS((*job.model)(torch::randn({4, 3})));
         job.model->step(*job.optimizer);
       }}};
  int number = 0;
  for (const Strategy& strategy : {Strategy{.kind = StrategyKind::ddp}, Strategy{.kind = StrategyKind::fsdp}}) {
    for (const Change& change : changes) {
      INFO(change.name << " " << name_of(strategy.kind));
      const std::string where = folder / std::to_string(number++);
      const auto said = on_ranks(2, [&](Session& session) -> std::string {
        AsyncJob job(session, strategy, where);
        Checkpoints first(session.world(), where + "/first", {.sync = false});
        job.model->save(first, 1, *job.optimizer);
        job.train();
        if (std::string_view(change.name) == "a load") job.plain.emplace(session.world(), where + "/first");
        job.learn();
        Checkpoints plain(session.world(), where + "/plain", {.sync = false});
        job.model->save(plain, 2, *job.optimizer);
        job.model->save_async(*job.async, 2, *job.optimizer);
        change.run(job);
        job.async->wait();
        session.barrier();
        return job.compared(2);
      });
      for (const std::string& each : said) CHECK(each == "same");
    }
  }
}

TEST_CASE("a Checkpoints may end while it saves, and training goes on") {
  const TempFolder folder;
  const auto said = on_ranks(2, [&](Session& session) -> std::string {
    AsyncJob job(session, {.kind = StrategyKind::zero1}, folder.path());
    PendingCopy copy = job.save(2);
    job.async.reset();
    const bool copied = copy.is_complete();
    job.train();
    job.async.emplace(session.world(), job.folder + "/async", CheckpointOptions{.sync = false});
    const bool lost = !job.async->latest();
    job.save(3);
    job.async->wait();
    session.barrier();
    return fmt::format("{} {} {}", copied, lost, job.compared(3));
  });
  for (const std::string& each : said) CHECK(each == "true true same");
}

TEST_CASE("a save in the background that cannot begin leaves nothing to wait for") {
  const TempFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const auto said = on_ranks(2, [&](Session& session) -> std::string {
    AsyncJob job(session, {.kind = StrategyKind::fsdp}, folder.path());
    Checkpoints none(session.world(), folder / "file");
    const std::string error = message_of<CheckpointError>([&] { job.model->save_async(none, 2, *job.optimizer); });
    job.train();
    job.save(3);
    job.train();
    job.async->wait();
    session.barrier();
    return (error.find("cannot be made") != std::string::npos ? "refused " : error) + job.compared(3);
  });
  for (const std::string& each : said) CHECK(each == "refused same");
}
