#pragma once
// The 1,797 handwritten digits of the UCI repository, 8 x 8 pixels, that ship inside the scikit-learn package.
#include <torch/torch.h>

#include <string>

namespace digits {

struct Samples {
  torch::Tensor images;  // float32 [n, 1, 8, 8], 0 to 1
  torch::Tensor labels;  // int64 [n]

  std::int64_t size() const { return labels.size(0); }
  Samples select(const std::vector<std::int64_t>& indices) const;
  Samples to(torch::Device device) const { return {images.to(device), labels.to(device)}; }
};

struct Split {
  Samples train;
  Samples test;
};

// Read digits.csv.gz (a line a sample: 64 pixels of 0 to 16, then the digit). Throws std::runtime_error.
Samples read_digits(const std::string& path);

// Every fifth sample is for the test. The writers come one after another in the file, so each is in both parts.
Split split(const Samples& all);

}  // namespace digits
