#pragma once
// A GPT: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
#include "dtrain/dtrain.h"

namespace gpt {

struct ModelOptions {
  std::int64_t characters = 0, context = 0, width = 0, depth = 0, heads = 0;
  bool recompute = false;  // run each block again in backward, to keep less of it
};

// Attention and two linear layers, each added to what came in. A unit: with fsdp each block is sharded by itself.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const ModelOptions& options);
  torch::Tensor forward(const torch::Tensor& x);  // [stretches, characters of a stretch, width]

  std::int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear mixed{nullptr}, out{nullptr}, wide{nullptr}, narrow{nullptr};
};
DTRAIN_UNIT(Block);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const ModelOptions& options);
  // [stretches, characters], int64 -> the scores of the next character, [stretches, characters, alphabet]
  torch::Tensor forward(const torch::Tensor& characters);

  bool recompute;
  torch::nn::Embedding embed{nullptr}, place{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace gpt
