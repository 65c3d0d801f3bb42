#pragma once
// PowerSGD for Ddp: gradients that are matrices are sent as two thin ones, whose product is close to them. Vogels,
// Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS
// 2019, arXiv:1905.13727.
#include <cstdint>

namespace dtrain {

// A parameter of shape n x a x b x ... has a gradient M of n rows and m = a b ... columns. With k columns Q, the same
// on all ranks, the ranks
//
//   average P = M Q                        n k numbers, and those of what is not compressed, in one all-reduce a bucket
//   make the columns of P orthonormal
//   average Q = transpose(M) P             m k numbers, in another one
//
// and take P transpose(Q) for the average of M. So a step reduces k (n + m) numbers of a matrix instead of n m, each of
// 4 bytes, or of 8 where the gradient is float64; biases and small matrices are reduced whole. It pays where the
// network is slow; it costs about 3 n m k multiplications and, with error_feedback, a copy of the gradients.
//
// Every rank computes its product itself: where ranks have different CPUs or numbers of threads the last bits may
// differ (Ddp::verify_sync tells).
struct PowerSgd {
  // k above, 1 or more; never more than n or m. Larger: a better approximation, more bytes. 1 to 4 is usual.
  int matrix_rank = 1;
  // So many backwards that synchronise reduce whole gradients: those of a model that has just been initialised change
  // too much. 0: none.
  std::int64_t start_step = 1000;
  // A matrix is compressed where n m is more than this times k (n + m).
  double min_compression_rate = 2;
  // Each rank keeps what a step did not send of its gradients and adds it to the next ones. Without it training may
  // go elsewhere. What is kept is lost with the process, and a gradient that is not finite stays in it.
  bool error_feedback = true;
  // Start from the last step's Q, which finds the important directions over several steps. Without it from random
  // numbers each time.
  bool warm_start = true;
  // 0: by Householder's method, which is always defined. Above: by Gram and Schmidt's, this added to each length;
  // faster on GPUs.
  double orthogonalization_epsilon = 0;
  // Of the random numbers; the same on all ranks.
  std::uint64_t seed = 0;
};

}  // namespace dtrain
