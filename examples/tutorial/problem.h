#pragma once
// What the programs of docs/tutorial.md train: a small net with batch norm, on points that the program draws itself.
#include <torch/torch.h>

#include <utility>

struct Samples {
  torch::Tensor x, y;

  std::int64_t size() const { return x.size(0); }
  Samples at(torch::Tensor indices) const {
    indices = indices.to(x.device());
    return {x.index_select(0, indices), y.index_select(0, indices)};
  }
};

// Points around ten centres: 1,000 to train on and 251 to test on. The seed makes them the same in every process.
inline std::pair<Samples, Samples> draw_samples(torch::Device device = torch::kCPU) {
  torch::manual_seed(1);
  const torch::Tensor y = torch::randint(10, {1251}, torch::kLong);
  const torch::Tensor x = torch::randn({10, 16}).index_select(0, y) + 1.2 * torch::randn({1251, 16});
  const Samples all{x.to(device), y.to(device)};
  return {{all.x.slice(0, 0, 1000), all.y.slice(0, 0, 1000)}, {all.x.slice(0, 1000), all.y.slice(0, 1000)}};
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool batch_norm = true) {
    layers->push_back(torch::nn::Linear(16, 32));
    if (batch_norm) layers->push_back(torch::nn::BatchNorm1d(32));
    layers->push_back(torch::nn::ReLU());
    layers->push_back(torch::nn::Linear(32, 10));
    register_module("layers", layers);
  }

  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }

  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);
