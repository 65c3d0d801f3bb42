#include "strategies/optim/elementwise.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

// torch's kernels for CPUs compute what is left of a tensor behind its last whole vector in another way, and round
// differently. So only whole blocks go to them: blocks of a vector, of any kind of CPU and of any type.
constexpr std::int64_t kBlock = 64;
// Elements of a piece that goes through copies: its tensors stay in the caches.
constexpr std::int64_t kPieceOnCpu = 64 * 1024;
constexpr std::int64_t kPieceElsewhere = 4 * 1024 * 1024;

struct Lists {
  std::vector<at::Tensor> values, gradients, steps;
  std::array<std::vector<at::Tensor>, 2> states;
  void add(const at::Tensor& value, const at::Tensor& gradient, const std::vector<at::Tensor>& of_state,
           const at::Tensor& step) {
    values.push_back(value);
    gradients.push_back(gradient);
    steps.push_back(step);
    for (std::size_t i = 0; i < of_state.size(); ++i) states.at(i).push_back(of_state[i]);
  }
};

void fused(const Sgd& sgd, const Rates& rates, const Lists& lists) {
  at::_fused_sgd_(lists.values, lists.gradients, lists.states[0], rates.weight_decay, sgd.momentum, rates.lr,
                  sgd.dampening, sgd.nesterov, /*maximize=*/false, rates.first_update);
}

void fused(const Adam& adam, const Rates& rates, const Lists& lists) {
  at::_fused_adam_(lists.values, lists.gradients, lists.states[0], lists.states[1], {}, lists.steps, rates.lr,
                   adam.betas.first, adam.betas.second, rates.weight_decay, adam.eps, /*amsgrad=*/false,
                   /*maximize=*/false);
}

void fused(const AdamW& adamw, const Rates& rates, const Lists& lists) {
  at::_fused_adamw_(lists.values, lists.gradients, lists.states[0], lists.states[1], {}, lists.steps, rates.lr,
                    adamw.betas.first, adamw.betas.second, rates.weight_decay, adamw.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void fused(const Adagrad& adagrad, const Rates& rates, const Lists& lists) {
  at::_fused_adagrad_(lists.values, lists.gradients, lists.states[0], lists.steps, rates.lr, adagrad.lr_decay,
                      rates.weight_decay, adagrad.eps, /*maximize=*/false);
}

void fused(const Elementwise& algorithm, const Rates& rates, const Lists& lists) {
  if (lists.values.empty()) return;
  std::visit([&](const auto& options) { fused(options, rates, lists); }, algorithm);
}

std::int64_t rounded_up(std::int64_t count) { return (count + kBlock - 1) / kBlock * kBlock; }

bool is_of_one_type(const Part& part) {
  const auto type = part.values.scalar_type();
  return part.gradient.scalar_type() == type &&
         std::all_of(part.states.begin(), part.states.end(),
                     [&](const at::Tensor& s) { return s.scalar_type() == type; });
}

// Whether torch's kernel can have the tensors as they are. That of torch 2.11 does not store what SGD makes of whole
// vectors of bfloat16 or half on a CPU.
bool goes_as_it_is(const Elementwise& algorithm, const Part& part) {
  const bool narrow = part.values.is_cpu() && at::isReducedFloatingType(part.values.scalar_type());
  if (std::holds_alternative<Sgd>(algorithm) && narrow && !kFusedSgdStoresNarrowTypes) return false;
  return is_of_one_type(part) && !part.scale.defined();
}

// The type that the copies have.
at::ScalarType type_of_copies(const Elementwise& algorithm, const Part& part) {
  if (goes_as_it_is(algorithm, part)) return part.values.scalar_type();
  return part.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Part narrowed(const Part& part, std::int64_t begin, std::int64_t count) {
  Part result{part.values.narrow(0, begin, count),
              part.gradient.narrow(0, begin, count),
              {},
              part.step,
              part.random,
              part.first_element + begin,
              part.scale};
  for (const at::Tensor& state : part.states) result.states.push_back(state.narrow(0, begin, count));
  return result;
}

// Rows for the values, the gradient and each state, made where they are needed.
struct Copies {
  std::int64_t elements;
  at::TensorOptions options;
  std::vector<at::Tensor> rows;

  at::Tensor first(std::size_t row, std::int64_t count) {
    if (!rows[row].defined()) rows[row] = at::zeros({elements}, options);
    return rows[row].narrow(0, 0, count);
  }
};

void update_copies(const Elementwise& algorithm, const Rates& rates, const Part& part, Copies& copies) {
  const auto count = part.values.numel();
  const auto row = [&](std::size_t i) { return copies.first(i, rounded_up(count)); };
  const auto used = [&](std::size_t i) { return row(i).narrow(0, 0, count); };
  std::vector<at::Tensor> states;
  // What has the copies' type, in whole blocks, needs no copy.
  const auto is_used_in_place = [&](const at::Tensor& its) {
    return count == rounded_up(count) && its.scalar_type() == c10::typeMetaToScalarType(copies.options.dtype());
  };
  const bool in_values = is_used_in_place(part.values);
  if (!in_values) used(0).copy_(part.values);
  used(1).copy_(part.gradient);
  if (part.scale.defined()) used(1).mul_(part.scale);
  for (std::size_t i = 0; i < part.states.size(); ++i) {
    const bool in_place = is_used_in_place(part.states[i]);
    if (!in_place) used(i + 2).copy_(part.states[i]);
    states.push_back(in_place ? part.states[i] : row(i + 2));
  }
  Lists lists;
  lists.add(in_values ? part.values : row(0), row(1), states, part.step);
  fused(algorithm, rates, lists);
  if (!in_values) part.values.copy_(used(0));
  for (std::size_t i = 0; i < part.states.size(); ++i) {
    if (!is_used_in_place(part.states[i]))
      store_state(part.states[i], used(i + 2), part.random + i, part.first_element);
  }
}

void update_in_pieces(const Elementwise& algorithm, const Rates& rates, const Part& part) {
  const bool on_cpu = part.values.is_cpu();
  const auto count = part.values.numel();
  const auto piece = std::min(on_cpu ? kPieceOnCpu : kPieceElsewhere, rounded_up(count));
  const auto pieces = (count + piece - 1) / piece;
  const auto some = [&](std::int64_t first, std::int64_t end) {
    const torch::NoGradGuard no_grad;  // each thread has a setting of its own
    Copies copies{piece, part.values.options().dtype(type_of_copies(algorithm, part)),
                  std::vector<at::Tensor>(part.states.size() + 2)};
    for (std::int64_t i = first; i < end; ++i)
      update_copies(algorithm, rates, narrowed(part, i * piece, std::min(piece, count - i * piece)), copies);
  };
  if (on_cpu) {
    at::parallel_for(0, pieces, 1, some);
  } else {
    some(0, pieces);
  }
}

}  // namespace

at::Tensor scaled_gradient(const Part& part, at::ScalarType type) {
  const at::Tensor gradient = part.gradient.to(type);
  return part.scale.defined() ? gradient.mul(part.scale) : gradient;
}

std::vector<std::string> state_names(const Elementwise& algorithm) {
  if (const auto* sgd = std::get_if<Sgd>(&algorithm))
    return sgd->momentum > 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{};
  if (std::holds_alternative<Adagrad>(algorithm)) return {"sum"};
  return {"exp_avg", "exp_avg_sq"};
}

void update(const Elementwise& algorithm, const Rates& rates, const std::vector<Part>& parts) {
  Lists lists;
  std::vector<Part> rest;
  for (const Part& part : parts) {
    const auto count = part.values.numel();
    const auto whole = !goes_as_it_is(algorithm, part) ? 0 : part.values.is_cpu() ? count / kBlock * kBlock : count;
    if (whole > 0) {
      const Part blocks = whole == count ? part : narrowed(part, 0, whole);
      lists.add(blocks.values, blocks.gradient, blocks.states, blocks.step);
    }
    if (whole < count) rest.push_back(narrowed(part, whole, count - whole));
  }
  fused(algorithm, rates, lists);
  for (const Part& part : rest) update_in_pieces(algorithm, rates, part);
}

}  // namespace dtrain
