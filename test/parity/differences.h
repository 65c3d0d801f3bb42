#pragma once
// How far two modules of one kind are apart.
#include <torch/torch.h>

#include <algorithm>

namespace dtrain::test {

// Of any parameter's elements.
inline double largest_difference(const torch::nn::Module& a, const torch::nn::Module& b) {
  double largest = 0;
  const auto left = a.parameters();
  const auto right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, (left[i] - right[i]).abs().max().item<double>());
  return largest;
}

}  // namespace dtrain::test
