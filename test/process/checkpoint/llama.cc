// ckpt_llama FROM INTO STEPS [tied]: a small Llama, with the names that Transformers has, takes its weights from the
// folder FROM, trains on one batch, and saves a checkpoint in INTO. Touvron et al., "LLaMA: Open and Efficient
// Foundation Language Models", 2023. Rank 0 prints the loss before and after. transformers_test.py runs it.
#include <fmt/format.h>

#include <cstdio>
#include <limits>

#include "dtrain/dtrain.h"

namespace {

constexpr std::int64_t kWords = 64, kHidden = 32, kInner = 48, kLayers = 2, kHeads = 4, kKeyHeads = 2, kHeadSize = 8;

torch::nn::Linear linear(std::int64_t in, std::int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

struct RmsNormImpl : torch::nn::Module {
  RmsNormImpl() : weight(register_parameter("weight", torch::ones({kHidden}))) {}
  at::Tensor forward(const at::Tensor& x) { return weight * x * torch::rsqrt(x.square().mean(-1, true) + 1e-6); }
  at::Tensor weight;
};
TORCH_MODULE(RmsNorm);

// Rotary positions: Su et al., "RoFormer", 2021.
at::Tensor rotated(const at::Tensor& x) {
  const at::Tensor rates = torch::pow(10000.0, -torch::arange(0, kHeadSize, 2) / static_cast<double>(kHeadSize));
  const at::Tensor angles = torch::outer(torch::arange(x.size(2)), rates);
  const at::Tensor both = torch::cat({angles, angles}, -1);
  const auto halves = x.chunk(2, -1);
  return x * both.cos() + torch::cat({-halves[1], halves[0]}, -1) * both.sin();
}

struct AttentionImpl : torch::nn::Module {
  AttentionImpl() {
    q = register_module("q_proj", linear(kHidden, kHeads * kHeadSize));
    k = register_module("k_proj", linear(kHidden, kKeyHeads * kHeadSize));
    v = register_module("v_proj", linear(kHidden, kKeyHeads * kHeadSize));
    o = register_module("o_proj", linear(kHeads * kHeadSize, kHidden));
  }
  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t batch = x.size(0), length = x.size(1);
    const auto heads = [&](const at::Tensor& y) { return y.view({batch, length, -1, kHeadSize}).transpose(1, 2); };
    const auto shared = [](const at::Tensor& y) { return y.repeat_interleave(kHeads / kKeyHeads, 1); };
    const at::Tensor scores = rotated(heads(q(x))).matmul(shared(rotated(heads(k(x)))).transpose(2, 3)) /
                              std::sqrt(static_cast<double>(kHeadSize));
    const at::Tensor later = torch::ones({length, length}, at::kBool).triu(1);
    const at::Tensor weights = scores.masked_fill(later, -std::numeric_limits<float>::infinity()).softmax(-1);
    return o(weights.matmul(shared(heads(v(x)))).transpose(1, 2).reshape({batch, length, -1}));
  }
  torch::nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, o{nullptr};
};
TORCH_MODULE(Attention);

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    gate = register_module("gate_proj", linear(kHidden, kInner));
    up = register_module("up_proj", linear(kHidden, kInner));
    down = register_module("down_proj", linear(kInner, kHidden));
  }
  at::Tensor forward(const at::Tensor& x) { return down(torch::silu(gate(x)) * up(x)); }
  torch::nn::Linear gate{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Mlp);

struct LayerImpl : torch::nn::Module {
  LayerImpl() {
    attention = register_module("self_attn", Attention());
    mlp = register_module("mlp", Mlp());
    before = register_module("input_layernorm", RmsNorm());
    after = register_module("post_attention_layernorm", RmsNorm());
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = x + attention(before(x));
    return y + mlp(after(y));
  }
  Attention attention{nullptr};
  Mlp mlp{nullptr};
  RmsNorm before{nullptr}, after{nullptr};
};
DTRAIN_UNIT(Layer);

struct InnerImpl : torch::nn::Module {
  InnerImpl() {
    embed = register_module("embed_tokens", torch::nn::Embedding(kWords, kHidden));
    for (std::int64_t i = 0; i < kLayers; ++i) layers->push_back(Layer());
    register_module("layers", layers);
    norm = register_module("norm", RmsNorm());
  }
  at::Tensor forward(const at::Tensor& words) { return norm(layers->forward(embed(words))); }
  torch::nn::Embedding embed{nullptr};
  torch::nn::Sequential layers;
  RmsNorm norm{nullptr};
};
TORCH_MODULE(Inner);

struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const at::Tensor& values) : weight(register_parameter("weight", values)) {}
  at::Tensor forward(const at::Tensor& x) { return torch::linear(x, weight); }
  at::Tensor weight;
};
TORCH_MODULE(Head);

struct LlamaImpl : torch::nn::Module {
  explicit LlamaImpl(bool tied) {
    model = register_module("model", Inner());
    head = register_module("lm_head", Head(tied ? model->embed->weight : torch::zeros({kWords, kHidden})));
  }
  at::Tensor forward(const at::Tensor& words) { return head(model(words)); }
  Inner model{nullptr};
  Head head{nullptr};
};
TORCH_MODULE(Llama);

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  torch::set_num_threads(1);
  auto session = dtrain::init();
  try {
    dtrain::Parallel model(session, [&] { return Llama(argc > 4); });
    model.load_weights(argv[1]);
    dtrain::ShardedOptimizer optimizer = model.optimizer(dtrain::Sgd{.lr = 0.1});
    const at::Tensor words = (torch::arange(32).view({2, 16}) * 3).remainder(kWords);
    const auto loss = [&] {
      const at::Tensor guesses = model(words).narrow(1, 0, 15).reshape({-1, kWords});
      return torch::nn::functional::cross_entropy(guesses, words.narrow(1, 1, 15).reshape({-1}));
    };
    const auto say = [&](const char* when) {
      const torch::NoGradGuard no_grad;
      const double now = loss().item<double>();
      if (session.rank() == 0) std::puts(fmt::format("{} {:.7f}", when, now).c_str());
    };
    say("before");
    const int steps = std::atoi(argv[3]);
    for (int step = 0; step < steps; ++step) {
      model.zero_grad();
      loss().backward();
      model.step(optimizer);
    }
    say("after");
    dtrain::Checkpoints checkpoints(session.world(), argv[2]);
    model.save(checkpoints, steps, optimizer);
  } catch (const dtrain::CheckpointError& error) {
    std::puts(fmt::format("rank {}: {}", session.rank(), error.what()).c_str());
    session.shutdown();
    return 3;
  }
  session.shutdown();
  return 0;
}
