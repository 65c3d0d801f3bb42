// What a rank keeps of parameters, gradients and the optimizer's state, under the strategy of DTRAIN_STRATEGY: a model
// of DEPTH blocks, each a linear layer of WIDTH x WIDTH, trains for some steps of one row. So activations are next to
// nothing. Two ways to measure:
//
// - counted: bytes of tensors that live, each memory once. An allocator counts those of torch. Memory that ranks share
//   comes from elsewhere, and is what the kernel has of its mappings in /proc/self/smaps, in proportion (Pss): what N
//   ranks map counts for 1/N in each.
// - pss: /proc/self/smaps_rollup without files, less what was there before.
//
// Rank 0 prints a line of JSON: bytes of a rank, means over the ranks.
//
// usage: memory_bench WIDTH DEPTH
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <unordered_map>

#include "dtrain/dtrain.h"

namespace {

constexpr int kSteps = 3;
constexpr int kLooks = 8;  // blocks from one look to the next: looking takes long

// Gives what torch's allocator for CPUs gives, and counts what of it lives. torch wants memory whose context is itself.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& the_one() {
    static CountingAllocator allocator;
    return allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const memory = c10::alloc_cpu(bytes);
    const std::lock_guard lock(mutex_);
    if (memory != nullptr) sizes_[memory] = bytes;
    live_ += static_cast<double>(bytes);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  double live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  static void release(void* memory) {
    the_one().forget(memory);
    c10::free_cpu(memory);
  }
  void forget(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return;
    live_ -= static_cast<double>(found->second);
    sizes_.erase(found);
  }

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;
  double live_ = 0;
};

CountingAllocator& counted() { return CountingAllocator::the_one(); }

// Bytes of this process that are no files', in proportion.
double pss() {
  std::ifstream file("/proc/self/smaps_rollup");
  double bytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"))
      bytes += 1024 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  }
  return bytes;
}

// Of the mappings of memory that ranks share for parameters and for rows of gradients, in proportion. A line with an
// address begins each mapping.
double shared() {
  std::ifstream file("/proc/self/smaps");
  double bytes = 0;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    if (const auto dash = line.find('-'); dash != std::string::npos && dash < line.find(' '))
      ours = line.find("/memfd:dtrain parameters") != std::string::npos ||
             line.find("/memfd:dtrain-arena") != std::string::npos;
    if (ours && line.starts_with("Pss:")) bytes += 1024 * std::strtod(line.c_str() + 4, nullptr);
  }
  return bytes;
}

// Of the moment when it was largest.
struct Peak {
  double counted = 0, pss = 0, before = 0;

  void look() {
    counted = std::max(counted, ::counted().live() + shared());
    pss = std::max(pss, ::pss() - before);
  }
};
Peak* watching = nullptr;

struct MemoryBlockImpl : torch::nn::Module {
  MemoryBlockImpl(std::int64_t width, int number)
      : looks(number % kLooks == 0),
        linear(register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x + torch::tanh(linear(x));
    if (looks && watching != nullptr && y.requires_grad()) {
      y.register_hook([](const torch::Tensor& gradient) {
        if (watching != nullptr) watching->look();
        return gradient;
      });
    }
    return y;
  }
  bool looks;
  torch::nn::Linear linear;
};
DTRAIN_UNIT(MemoryBlock);

struct MemoryNetImpl : torch::nn::Module {
  MemoryNetImpl(std::int64_t width, int depth) {
    for (int i = 0; i < depth; ++i) blocks->push_back(MemoryBlock(width, i));
    register_module("blocks", blocks);
  }
  torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(MemoryNet);

// Bytes: when backward has ended, those of them that ranks share, and at the peak.
struct Found {
  double held = 0, peak = 0, shared = 0, pss_peak = 0;
};

Found train(dtrain::Session& session, std::int64_t width, int depth, bool measures) {
  Found found;
  Peak peak{.before = pss()};
  const auto before = counted().live();
  dtrain::Parallel model(session, [&] { return MemoryNet(width, depth); });
  auto optimizer = model.optimizer(dtrain::AdamW{.lr = 1e-4});
  const torch::Tensor x = torch::ones({1, width});
  for (int step = 0; step < kSteps; ++step) {
    const bool last = measures && step == kSteps - 1;
    if (last) watching = &peak;
    model.zero_grad();
    model(x).pow(2).mean().backward();
    session.barrier();
    if (last) {
      found.shared = shared();
      found.held = counted().live() - before + found.shared;
      session.barrier();  // all have looked
    }
    model.clip_grad_norm(1.0);
    model.step(optimizer);
  }
  watching = nullptr;
  peak.look();
  found.peak = peak.counted - before;
  found.pss_peak = peak.pss;
  return found;
}

int run(std::int64_t width, int depth) {
  c10::SetCPUAllocator(&counted(), /*priority=*/1);
  torch::set_num_threads(1);
  auto session = dtrain::init();
  train(session, 16, 2, false);  // what only the first training takes
  session.barrier();
  const Found found = train(session, width, depth, true);
  torch::Tensor all = torch::tensor({found.held, found.shared, found.peak, found.pss_peak}, torch::kDouble);
  session.all_reduce(all, c10d::ReduceOp::AVG);
  if (session.is_first()) {
    const auto mean = [&](int which) { return static_cast<std::int64_t>(all[which].item<double>()); };
    std::cout << "{\"held\": " << mean(0) << ", \"shared\": " << mean(1) << ", \"peak\": " << mean(2)
              << ", \"pss_peak\": " << mean(3) << "}\n";
  }
  session.shutdown();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: memory_bench WIDTH DEPTH\n";
    return 2;
  }
  return run(std::atoll(arguments[1]), std::atoi(arguments[2]));
}
