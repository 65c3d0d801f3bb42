// Trains a chain of layers whose optimizer has its state in memory, or in a file of FOLDER. Parameters are bfloat16,
// and AdamW's state is float32: 8 bytes for 2. Backward goes from layer to layer, and a layer is updated as soon as its
// gradient is there, so no gradient outlives its layer. With a folder, the disk takes turns with training: as many
// bytes as a step reads and writes, by themselves. Prints a line for each step:
//
//   LOSS STEP_SECONDS READ_THEN_WRITE_SECONDS READ_WHILE_WRITE_SECONDS
//
// and then the bytes of state, and a number of all bits of the parameters. The first step is not printed: it reads a
// file that nobody has written.
//
// usage: state_bench LAYERS WIDTH STEPS THREADS [FOLDER]
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <thread>

#include "dtrain/optimizer.h"

namespace {

constexpr std::int64_t kExamples = 16;
constexpr std::int64_t kRequest = 8 << 20, kHugePage = 2 << 20;

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void demand(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

// A file of the same size in the same folder.
class Disk {
 public:
  Disk(const std::string& folder, std::int64_t bytes) : bytes_(bytes / kRequest * kRequest) {
    fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    demand(fd_ >= 0, folder.c_str());
    demand(::posix_fallocate(fd_, 0, bytes_) == 0, "posix_fallocate");
    for (char*& each : memory_) {
      each = static_cast<char*>(std::aligned_alloc(kHugePage, kRequest));
      ::madvise(each, kRequest, MADV_HUGEPAGE);
      std::memset(each, 1, kRequest);
    }
    write();
  }
  ~Disk() {
    for (char* each : memory_) std::free(each);
    ::close(fd_);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void read() {
    for (std::int64_t at = 0; at < bytes_; at += kRequest)
      demand(::pread(fd_, memory_[0], kRequest, at) == kRequest, "pread");
  }
  void write() {
    for (std::int64_t at = 0; at < bytes_; at += kRequest)
      demand(::pwrite(fd_, memory_[1], kRequest, at) == kRequest, "pwrite");
  }

 private:
  std::int64_t bytes_;
  int fd_ = -1;
  char* memory_[2] = {};
};

struct Layer {
  at::Tensor weight;  // flat
  at::Tensor input;   // of the last forward
  at::Tensor forward(const at::Tensor& x) const {
    return x + at::tanh(at::linear(x, weight.view({x.size(1), x.size(1)})));
  }
};

class Chain {
 public:
  Chain(std::int64_t layers, std::int64_t width, const std::string& folder)
      : layers_(static_cast<std::size_t>(layers)) {
    std::vector<dtrain::ShardRun> runs;
    for (Layer& layer : layers_) {
      const std::string name = "layer" + std::to_string(runs.size());
      layer.weight = at::empty({width * width}, at::kBFloat16).normal_(0, 0.02);
      const at::Tensor values = layer.weight.detach();
      runs.push_back({values, {{name, {width, width}, 0, values}}});
      layer.weight.requires_grad_();
    }
    optimizer_.emplace(
        dtrain::ShardedOptimizerOptions{
            .algorithm = dtrain::AdamW{.lr = 1e-4}, .state_dtype = at::kFloat, .state_folder = folder},
        runs);
    input_ = torch::randn({kExamples, width}).to(at::kBFloat16);
    wanted_ = torch::randn({kExamples, width}).to(at::kBFloat16);
  }

  // The loss, and the seconds within the optimizer.
  std::pair<double, double> step() {
    at::Tensor x = input_;
    {
      const torch::NoGradGuard no_grad;
      for (Layer& layer : layers_) x = layer.forward(layer.input = x);
    }
    x.requires_grad_();
    const at::Tensor loss = at::mse_loss(x.to(at::kFloat), wanted_.to(at::kFloat));
    loss.backward();
    at::Tensor gradient = x.grad();
    double seconds = 0;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      Layer& layer = layers_[i];
      const at::Tensor input = layer.input.detach().requires_grad_();
      layer.forward(input).backward(gradient);
      gradient = input.grad();
      std::vector<at::Tensor> gradients(layers_.size());
      gradients[i] = layer.weight.grad();
      seconds += seconds_of([&] { optimizer_->step(gradients); });
      layer.weight.mutable_grad().reset();
    }
    return {loss.item<double>(), seconds};
  }

  std::int64_t state_bytes() const {
    std::int64_t bytes = 0;
    for (const dtrain::ShardState& each : optimizer_->state())
      for (const auto& [name, tensor] : each.tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
    return bytes;
  }
  std::uint64_t bits() const {
    std::uint64_t hash = 0;
    for (const Layer& layer : layers_) {
      const auto* words = static_cast<const std::uint16_t*>(layer.weight.const_data_ptr());
      for (std::int64_t i = 0; i < layer.weight.numel(); ++i) hash = hash * 0x100000001B3U + words[i];
    }
    return hash;
  }

 private:
  std::vector<Layer> layers_;
  std::optional<dtrain::ShardedOptimizer> optimizer_;
  at::Tensor input_, wanted_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::cerr << "usage: state_bench LAYERS WIDTH STEPS THREADS [FOLDER]\n";
    return 2;
  }
  torch::manual_seed(1);
  torch::set_num_threads(std::atoi(arguments[4]));
  const std::string folder = count == 6 ? arguments[5] : "";
  Chain chain(std::atoll(arguments[1]), std::atoll(arguments[2]), folder);
  std::optional<Disk> disk;
  if (!folder.empty()) disk.emplace(folder, chain.state_bytes());
  for (int step = -1; step < std::atoi(arguments[3]); ++step) {
    const auto [loss, seconds] = chain.step();
    double one_by_one = 0, at_once = 0;
    if (disk && step >= 0) {
      one_by_one = seconds_of([&] {
        disk->read();
        disk->write();
      });
      at_once = seconds_of([&] {
        std::thread reader([&] { disk->read(); });
        disk->write();
        reader.join();
      });
    }
    if (step >= 0) std::cout << loss << ' ' << seconds << ' ' << one_by_one << ' ' << at_once << '\n';
  }
  std::cout << chain.state_bytes() << ' ' << chain.bits() << '\n';
  return 0;
}
