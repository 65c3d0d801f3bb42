// steps_bench OP TYPE BYTES (plan.h), under a launcher: steps of training with gradients of BYTES bytes, in float32.
//   ddp             forward and backward of Ddp, a model as collectives_worker.py's
//   ddp_views       with gradient_as_bucket_view
//   ddp_alone       the same without any reduction
//   ddp_host        of layers so small that a step's time is what the host takes to call, not to calculate or move
//   hvd             500 gradients through one hvd::Context, which fuses them
//   hvd_unfused     with HOROVOD_FUSION_THRESHOLD=0: a collective for each
//   each            500 times Session::all_reduce
//   each_async      500 asynchronous all_reduces of the group, and then a wait for each
#include <optional>

#include "dtrain/dtrain.h"
#include "test/bench/collectives/plan.h"

namespace {

using dtrain::Session;

constexpr std::int64_t kGradients = 500;
constexpr int kRow = 10;

struct RowImpl : torch::nn::Module {
  RowImpl(std::size_t bytes, std::int64_t width) {
    const auto layers = std::max<std::size_t>(1, bytes / static_cast<std::size_t>(4 * width * width));
    for (std::size_t i = 0; i < layers; ++i)
      row.push_back(
          register_module(std::to_string(i), torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false))));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : row) x = layer(x);
    return x;
  }
  std::vector<torch::nn::Linear> row;
};
TORCH_MODULE(Row);

double ddp(Session& session, std::size_t bytes, const std::string& op) {
  const std::int64_t width = op == "ddp_host" ? 32 : 1024;
  const bool reduces = op != "ddp_alone";
  dtrain::DdpOptions options;
  options.gradient_as_bucket_view = op == "ddp_views";
  Row net(bytes, width);
  dtrain::Ddp model(session, net, options);
  const torch::Tensor x = torch::randn({2, width});
  const auto step = [&] {
    model.zero_grad();
    model(x).sum().backward();
  };
  return dtrain::bench::measure_rows(
      kRow, [&] { session.barrier(); },
      [&] {
        if (reduces) return step();
        const auto guard = model.no_sync();
        step();
      });
}

double gradients(Session& session, std::size_t bytes, const std::string& op) {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < kGradients; ++i) {
    tensors.push_back(torch::zeros({static_cast<std::int64_t>(bytes) / 4 / kGradients}));
    names.push_back("gradient " + std::to_string(i));
  }
  std::optional<dtrain::hvd::Context> context;
  if (op.rfind("hvd", 0) == 0) {
    dtrain::hvd::Settings settings;
    if (op == "hvd_unfused") settings.fusion_threshold = 0;
    context.emplace(session, settings);
  }
  const auto step = [&] {
    if (op == "each") {
      for (torch::Tensor& tensor : tensors) session.all_reduce(tensor, c10d::ReduceOp::AVG);
      return;
    }
    if (op == "each_async") {
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::AVG;
      for (const torch::Tensor& tensor : tensors) {
        std::vector<torch::Tensor> one{tensor};
        works.push_back(session.group()->allreduce(one, options));
      }
      for (auto& work : works) work->wait();
      return;
    }
    std::vector<dtrain::hvd::Handle> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i) handles.push_back(context->allreduce(tensors[i], names[i]));
    for (auto& handle : handles) handle.wait();
  };
  return dtrain::bench::measure_rows(
      kRow, [&] { session.barrier(); }, step);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  torch::set_num_threads(1);
  const std::string op = argv[1];
  Session session = dtrain::init();
  for (const std::size_t bytes : dtrain::bench::sizes_of(argv[3])) {
    const double us = op.rfind("ddp", 0) == 0 ? ddp(session, bytes, op) : gradients(session, bytes, op);
    if (session.is_first()) std::printf("%zu %.3f\n", bytes, us);
  }
  session.shutdown();
  return 0;
}
