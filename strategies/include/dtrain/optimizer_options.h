#pragma once
// What the optimizers of optimizer.h can be told. Names and defaults are those of torch.optim. Pure: no I/O, no torch.
#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain {

// State of a shard: "momentum_buffer", if there is momentum.
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  // added to the gradient: an L2 penalty
  bool nesterov = false;    // needs momentum, and no dampening
};

// Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015. State: "exp_avg" and "exp_avg_sq".
struct Adam {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient: an L2 penalty
};

// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019. State: that of Adam.
struct AdamW {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

// Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", JMLR 2011.
// State: "sum".
struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;  // added to the gradient: an L2 penalty
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

// You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020. The update of each
// parameter is scaled by the norm of the whole parameter over the norm of the whole update; by 1 if one of them is 0.
// State: that of Adam. A step is a collective: it sums 16 bytes for each parameter over the ranks. So with LAMB every
// rank lists the same parameters in the same order, with an empty shard where it has no part, and leaves out the same
// gradients. It needs memory for 64 Ki elements beside the state, not for a run.
struct Lamb {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0;  // part of the update, before it is scaled
};

// How Muon scales its rate for a matrix of A rows and B columns.
enum class MuonRate {
  original,            // by sqrt(max(1, A / B))
  match_rms_adamw,     // by 0.2 sqrt(max(A, B)), for rates that were found for AdamW
  spectral_unclamped,  // by sqrt(A / B)
};

// Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; "match_rms_adamw" is of Liu et al.,
// "Muon is Scalable for LLM Training", 2025, arXiv:2502.16982. Orthogonalises the momentum of each matrix by
// Newton-Schulz steps in bfloat16. State of a matrix: "momentum_buffer".
//
// A matrix needs all its elements on the rank that updates it: a rank has the whole matrix or an empty shard. A step
// makes no communication, and its bits are those of one process with as many threads. AdamW updates parameters that
// are no matrices, and those that `adamw_names` names, divided as they are.
struct Muon {
  double lr = 1e-3;  // above 0
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients{3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int ns_steps = 5;  // 1 to 99
  MuonRate adjust_lr_fn = MuonRate::original;
  AdamW adamw{};  // set_lr() scales its lr in proportion
  // Matrices whose name contains one of these belong to `adamw`: embeddings and the last layer, as a rule.
  std::vector<std::string> adamw_names{};
};

using OptimizerOptions = std::variant<Sgd, Adam, AdamW, Adagrad, Lamb, Muon>;

}  // namespace dtrain
