#pragma once
// The network, and the columns that it takes.
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace flights {

// The sizes of the vocabularies in job.yaml, and 1 for what is not in them.
constexpr std::int64_t kCarriers = 32, kOrigins = 8, kDestinations = 128;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    carrier = register_module("carrier", torch::nn::Embedding(kCarriers, 8));
    origin = register_module("origin", torch::nn::Embedding(kOrigins, 4));
    destination = register_module("destination", torch::nn::Embedding(kDestinations, 12));
    first = register_module("first", torch::nn::Linear(8 + 4 + 12 + 4, 64));
    second = register_module("second", torch::nn::Linear(64, 32));
    last = register_module("last", torch::nn::Linear(32, 1));
  }

  // numbers: [rows, 4] float32; names: [rows, 3] int64. Returns [rows].
  torch::Tensor forward(const torch::Tensor& numbers, const torch::Tensor& names) {
    torch::Tensor x = torch::cat(
        {numbers, carrier(names.select(1, 0)), origin(names.select(1, 1)), destination(names.select(1, 2))}, 1);
    x = torch::relu(first(x));
    return last(torch::relu(second(x))).squeeze(1);
  }

  torch::nn::Embedding carrier{nullptr}, origin{nullptr}, destination{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

inline std::map<std::string, std::vector<std::string>> matrices() {
  return {{"numbers", {"month", "hour", "distance", "dep_delay"}}, {"names", {"carrier", "origin", "dest"}}};
}

}  // namespace flights
