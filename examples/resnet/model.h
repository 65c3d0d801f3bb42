#pragma once
// ResNet: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, table 1. A bottleneck has its
// stride in the 3 x 3 convolution ("v1.5"). Names, shapes and, for a seed, first weights are those of torchvision's
// models of the same depth.
#include <torch/torch.h>

#include <string>

namespace resnet {

// Two 3 x 3 convolutions (depths 18 and 34), or a 3 x 3 one between two 1 x 1 (50, 101 and 152), around a shortcut.
struct BlockImpl : torch::nn::Module {
  BlockImpl(bool bottleneck, std::int64_t inputs, std::int64_t width, std::int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
  torch::nn::Sequential downsample{nullptr};  // of the shortcut, where the block changes the shape
};
TORCH_MODULE(Block);

struct ResNetImpl : torch::nn::Module {
  // depth: 18, 34, 50, 101 or 152; std::invalid_argument for others.
  ResNetImpl(int depth, std::int64_t classes);
  // [n, 3, height, width] -> [n, classes]. In training mode at least two images, or more than 32 x 32 pixels: batch
  // norm needs more than one value of each channel.
  torch::Tensor forward(torch::Tensor x);

  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  torch::nn::Sequential layer1{nullptr}, layer2{nullptr}, layer3{nullptr}, layer4{nullptr};
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet);

std::int64_t parameter_count(const torch::nn::Module& module);

// Parameters and buffers with their names; in Python, model.load_state_dict(dict(torch.load(path))) takes them. The
// file is replaced at once or left as it was. Throws std::runtime_error.
void save_weights(const torch::nn::Module& module, const std::string& path);
// From a file of save_weights, or of Python's torch.save(dict(model.state_dict()), path). Throws std::runtime_error
// where a name or a shape differs.
void load_weights(torch::nn::Module& module, const std::string& path);

}  // namespace resnet
