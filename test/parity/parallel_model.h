#pragma once
// A model with units, data for it, and all strategies.
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"
#include "test/parity/ways.h"
#include "test/support/catch.h"

namespace dtrain::test {

inline constexpr std::int64_t kBatch = 12, kWidth = 6, kClasses = 5;

struct ParBlockImpl : torch::nn::Module {
  explicit ParBlockImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        wide(register_module("wide", torch::nn::Linear(width, 3 * width))),
        narrow(register_module("narrow", torch::nn::Linear(3 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + narrow(torch::tanh(wide(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear wide, narrow;
};
DTRAIN_UNIT(ParBlock);

struct ParNetImpl : torch::nn::Module {
  explicit ParNetImpl(std::int64_t width = kWidth) {
    embed = register_module("embed", torch::nn::Embedding(11, width));
    for (int i = 0; i < 3; ++i) blocks->push_back(ParBlock(width));
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(width, kClasses));
    calls = register_buffer("calls", torch::zeros({1}));
  }
  torch::Tensor forward(const torch::Tensor& words) {
    torch::Tensor x = blocks->forward(embed(words));
    return head(x);
  }
  torch::nn::Embedding embed{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear head{nullptr};
  torch::Tensor calls;
};
TORCH_MODULE(ParNet);

// Blocks are built in double, as they are sharded before a to() of the whole net.
struct InDouble {
  InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
  InDouble(const InDouble&) = delete;
  InDouble& operator=(const InDouble&) = delete;
};

struct Data {
  torch::Tensor words, classes;
};
inline Data batch_of(int step, int micro) {
  torch::manual_seed(100 * step + micro);
  return {torch::randint(11, {kBatch}), torch::randint(kClasses, {kBatch})};
}

inline torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& classes) {
  return torch::nn::functional::cross_entropy(output, classes);
}

inline std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> found;
  std::istringstream words(text);
  for (double each = 0; words >> each;) found.push_back(each);
  return found;
}

inline void check_close(const std::string& said, const std::string& expected) {
  const auto a = numbers_in(said), b = numbers_in(expected);
  INFO(said);
  INFO(expected);
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() > 5);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  CHECK(worst < 1e-9);
}

// Whole matrices on one rank, and rows of the rest.
inline Placement owned_matrices(const std::string& /*name*/, const torch::Tensor& parameter) {
  return parameter.dim() == 2 ? Placement::owned() : Placement{};
}

// All bits of the tensors, for short.
inline std::string bits_of(const std::vector<torch::Tensor>& tensors) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const torch::Tensor& each : tensors) {
    const torch::Tensor plain = each.detach().contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(plain.const_data_ptr());
    for (std::size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3U;
  }
  return fmt::format("{:016x}", hash);
}

inline std::vector<Way> ways() {
  using Kind = StrategyKind;
  return {
      {"ddp", {.kind = Kind::ddp}},
      {"zero1", {.kind = Kind::zero1}},
      {"zero1, small buckets", {.kind = Kind::zero1, .bucket_bytes = 500}},
      {"zero2", {.kind = Kind::zero2}},
      {"zero2, small buckets", {.kind = Kind::zero2, .bucket_bytes = 500}},
      {"fsdp", {.kind = Kind::fsdp}},
      {"fsdp, copies", {.kind = Kind::fsdp, .one_copy = false}},
      {"fsdp, copies, kept", {.kind = Kind::fsdp, .reshard_after_forward = false, .prefetch = 2, .one_copy = false}},
      {"fsdp, copies, few bytes ahead", {.kind = Kind::fsdp, .prefetch = 3, .prefetch_bytes = 2000, .one_copy = false}},
      {"fsdp, copies, no prefetch", {.kind = Kind::fsdp, .prefetch = 0, .one_copy = false}},
      {"fsdp, copies, small ones whole", {.kind = Kind::fsdp, .whole_elements = 18, .one_copy = false}},
      {"fsdp, one unit", {.kind = Kind::fsdp, .unit_elements = 1000000}}};
}

}  // namespace dtrain::test
