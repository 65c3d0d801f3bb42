// See model.h.
#include "examples/gpt/model.h"

#include <cmath>

namespace gpt {
namespace {

void begin_small(const torch::Tensor& weight, double deviation) {
  const torch::NoGradGuard no_grad;
  weight.normal_(0, deviation);
}

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

BlockImpl::BlockImpl(const ModelOptions& options) : heads(options.heads) {
  const std::int64_t width = options.width;
  norm1 = register_module("norm1", layer_norm(width));
  mixed = register_module("mixed", torch::nn::Linear(width, 3 * width));
  out = register_module("out", torch::nn::Linear(width, width));
  norm2 = register_module("norm2", layer_norm(width));
  wide = register_module("wide", torch::nn::Linear(width, 4 * width));
  narrow = register_module("narrow", torch::nn::Linear(4 * width, width));
  // Here and not in GptImpl: after this constructor the block may be sharded.
  for (auto& layer : {mixed, wide}) begin_small(layer->weight, 0.02);
  for (auto& layer : {out, narrow})
    begin_small(layer->weight, 0.02 / std::sqrt(2.0 * static_cast<double>(options.depth)));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  const std::int64_t stretches = x.size(0), characters = x.size(1), width = x.size(2);
  const auto by_head = [&](const torch::Tensor& each) {
    return each.view({stretches, characters, heads, width / heads}).transpose(1, 2);
  };
  const auto parts = mixed(norm1(x)).split(width, -1);
  const torch::Tensor seen =
      at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {}, 0.0, true);
  const torch::Tensor y = x + out(seen.transpose(1, 2).reshape({stretches, characters, width}));
  return y + narrow(torch::gelu(wide(norm2(y))));
}

GptImpl::GptImpl(const ModelOptions& options) : recompute(options.recompute) {
  embed = register_module("embed", torch::nn::Embedding(options.characters, options.width));
  place = register_module("place", torch::nn::Embedding(options.context, options.width));
  begin_small(embed->weight, 0.02);
  begin_small(place->weight, 0.02);
  for (std::int64_t i = 0; i < options.depth; ++i) blocks->push_back(Block(options));
  register_module("blocks", blocks);
  norm = register_module("norm", layer_norm(options.width));
}

torch::Tensor GptImpl::forward(const torch::Tensor& characters) {
  const torch::Tensor places = torch::arange(characters.size(1), characters.options());
  torch::Tensor x = embed(characters) + place(places);
  for (torch::nn::AnyModule& block : *blocks) {
    const auto run = [&block](const torch::Tensor& each) { return block.forward(each); };
    x = recompute ? dtrain::recompute(run, x) : run(x);
  }
  x = norm(x);
  return torch::linear(x, embed->weight);  // the same weights read and write characters
}

}  // namespace gpt
