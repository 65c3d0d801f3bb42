#pragma once
// Where the images come from. Each rank asks for those of its part of a batch and gets no others.
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace resnet {

struct Samples {
  torch::Tensor pixels;  // uint8 [n, 3, side, side], on the CPU
  torch::Tensor labels;  // int64 [n], on the CPU
};

class Images {
 public:
  virtual ~Images() = default;
  virtual std::int64_t size() const = 0;
  // Throws std::runtime_error, which names the file and the record.
  virtual Samples load(const std::vector<std::int64_t>& indices) const = 0;
};

struct Split {
  std::unique_ptr<Images> train;
  std::unique_ptr<Images> test;
};

// `count` pictures to train on and a quarter as many to test on, side x side, drawn when they are asked for.
Split synthetic_images(std::int64_t count, std::int64_t side, std::int64_t classes);

// The files data_batch_1.bin to data_batch_5.bin and test_batch.bin of CIFAR-10's binary version, or others in that
// format. They stay open; what is asked for is read when it is asked for. Throws std::runtime_error.
Split cifar_images(const std::string& folder, std::int64_t classes);

// The network's input: floats around 0, side x side (resized if they are not), on the device.
torch::Tensor as_input(const torch::Tensor& pixels, std::int64_t side, torch::Device device);

}  // namespace resnet
