// See model.h.
#include "examples/resnet/model.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace resnet {
namespace {

constexpr std::int64_t kExpansion = 4;  // of a bottleneck's last convolution

struct Shape {
  bool bottleneck;
  std::array<int, 4> blocks;  // of the four stages
};

Shape shape_of(int depth) {
  switch (depth) {
    case 18:
      return {false, {2, 2, 2, 2}};
    case 34:
      return {false, {3, 4, 6, 3}};
    case 50:
      return {true, {3, 4, 6, 3}};
    case 101:
      return {true, {3, 4, 23, 3}};
    case 152:
      return {true, {3, 8, 36, 3}};
    default:
      throw std::invalid_argument("a ResNet has 18, 34, 50, 101 or 152 layers, not " + std::to_string(depth));
  }
}

// Keeps the size but for the stride.
torch::nn::Conv2d conv(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

torch::nn::Sequential stage(const Shape& shape, std::int64_t& channels, int number) {
  const std::int64_t width = 64L << number;
  torch::nn::Sequential blocks;
  for (int i = 0; i < shape.blocks[static_cast<std::size_t>(number)]; ++i) {
    blocks->push_back(Block(shape.bottleneck, channels, width, number > 0 && i == 0 ? 2 : 1));
    channels = shape.bottleneck ? width * kExpansion : width;
  }
  return blocks;
}

std::vector<std::pair<std::string, torch::Tensor>> state_of(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

using Weights = std::map<std::string, torch::Tensor>;

// What a file holds: pairs as save_weights writes them, or a dict as Python does.
Weights weights_in(const c10::IValue& value) {
  Weights weights;
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) weights.emplace(item.key().toStringRef(), item.value().toTensor());
  } else {
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      const auto& pair = item.toTupleRef().elements();
      TORCH_CHECK(pair.size() == 2, "a tuple of ", pair.size(), " where a name and its tensor should be");
      weights.emplace(pair[0].toStringRef(), pair[1].toTensor());
    }
  }
  return weights;
}

Weights read_weights(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open the weights at " + path);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  try {
    return weights_in(torch::pickle_load(bytes));
  } catch (const c10::Error&) {
    throw std::runtime_error("the weights at " + path +
                             " are not what --save or Python's torch.save(dict(model.state_dict()), file) writes");
  }
}

}  // namespace

BlockImpl::BlockImpl(bool bottleneck, std::int64_t inputs, std::int64_t width, std::int64_t stride) {
  const std::int64_t outputs = bottleneck ? width * kExpansion : width;
  conv1 = register_module("conv1", bottleneck ? conv(inputs, width, 1) : conv(inputs, width, 3, stride));
  bn1 = register_module("bn1", torch::nn::BatchNorm2d(width));
  conv2 = register_module("conv2", bottleneck ? conv(width, width, 3, stride) : conv(width, width, 3));
  bn2 = register_module("bn2", torch::nn::BatchNorm2d(width));
  if (bottleneck) {
    conv3 = register_module("conv3", conv(width, outputs, 1));
    bn3 = register_module("bn3", torch::nn::BatchNorm2d(outputs));
  }
  if (stride != 1 || inputs != outputs) {
    downsample = register_module(
        "downsample", torch::nn::Sequential(conv(inputs, outputs, 1, stride), torch::nn::BatchNorm2d(outputs)));
  }
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
  if (conv3) y = bn3(conv3(torch::relu(y)));
  return torch::relu(y + (downsample ? downsample->forward(x) : x));
}

ResNetImpl::ResNetImpl(int depth, std::int64_t classes) {
  const Shape shape = shape_of(depth);
  conv1 =
      register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
  bn1 = register_module("bn1", torch::nn::BatchNorm2d(64));
  std::int64_t channels = 64;
  layer1 = register_module("layer1", stage(shape, channels, 0));
  layer2 = register_module("layer2", stage(shape, channels, 1));
  layer3 = register_module("layer3", stage(shape, channels, 2));
  layer4 = register_module("layer4", stage(shape, channels, 3));
  fc = register_module("fc", torch::nn::Linear(channels, classes));
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

torch::Tensor ResNetImpl::forward(torch::Tensor x) {
  x = torch::max_pool2d(torch::relu(bn1(conv1(x))), 3, 2, 1);
  x = layer4->forward(layer3->forward(layer2->forward(layer1->forward(x))));
  return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

void save_weights(const torch::nn::Module& module, const std::string& path) {
  std::vector<c10::IValue> pairs;  // torch.load refuses a dict from C++ unless it is told to trust it
  for (const auto& [name, tensor] : state_of(module)) {
    // A copy: pickle writes all that lies in the same memory, and fsdp has the parameters side by side.
    pairs.emplace_back(c10::ivalue::Tuple::create({name, tensor.detach().to(torch::kCPU).clone()}));
  }
  const std::vector<char> bytes = torch::pickle_save(c10::ivalue::Tuple::create(std::move(pairs)));
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    std::remove(beside.c_str());
    throw std::runtime_error("cannot write the weights to " + path);
  }
}

void load_weights(torch::nn::Module& module, const std::string& path) {
  const Weights weights = read_weights(path);
  const auto state = state_of(module);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) {
    const auto found = weights.find(name);
    if (found == weights.end()) {
      throw std::runtime_error("the weights at " + path + " have no " + name + "; was it another --depth?");
    }
    if (found->second.sizes() != tensor.sizes()) {
      throw std::runtime_error("the weights at " + path + " have another shape of " + name +
                               "; were there other --classes, or another --depth?");
    }
    tensor.copy_(found->second);
  }
  if (weights.size() != state.size()) {
    throw std::runtime_error("the weights at " + path + " have " + std::to_string(weights.size()) +
                             " tensors, the network has " + std::to_string(state.size()) + "; was it another --depth?");
  }
}

}  // namespace resnet
