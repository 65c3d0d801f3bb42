#pragma once
// PowerSGD for Ddp. The gradient of a matrix is sent as two thin matrices whose product is close to it. See Vogels,
// Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS
// 2019, arXiv:1905.13727.
#include <cstdint>

namespace dtrain {

// A parameter of shape n x a x b x ... has a gradient M of n rows and m = a b ... columns. Q is a matrix of k columns
// that is the same on all ranks. The ranks
//
//   average P = M Q                        n k numbers, and the gradients that are not compressed: one all-reduce a
//                                          bucket
//   make the columns of P orthonormal
//   average Q = transpose(M) P             m k numbers: another all-reduce a bucket
//
// and take P transpose(Q) for the average of M. So a step reduces k (n + m) numbers of a matrix instead of n m. A
// number has 4 bytes, or 8 if the gradient is float64. Biases and small matrices are reduced whole. PowerSGD saves time
// if the network is slow. It costs about 3 n m k multiplications and, with error_feedback, a copy of the gradients.
//
// Every rank computes the product itself. If ranks have different CPUs or numbers of threads, the last bits may differ
// between ranks. Ddp::verify_sync() finds that.
struct PowerSgd {
  // k above, 1 or more. No more than n or m is used. A larger k gives a better approximation and sends more bytes. 1 to
  // 4 is usual.
  int matrix_rank = 1;
  // The first so many backwards that synchronise reduce whole gradients, because the gradients of a new model change
  // too much. 0: none of them does.
  std::int64_t start_step = 1000;
  // A matrix is compressed if n m is more than this number times k (n + m).
  double min_compression_rate = 2;
  // Each rank keeps the part of its gradients that a step did not send, and adds it to the next gradients. Without
  // this, training may end at another result. What is kept is lost when the process ends. A gradient that is not finite
  // stays in it.
  bool error_feedback = true;
  // Each step starts from the Q of the last step, so Q finds the important directions over several steps. Without this,
  // each step starts from random numbers.
  bool warm_start = true;
  // 0: make the columns orthonormal by Householder's method, which always works. Above 0: by the method of Gram and
  // Schmidt, with this number added to each length; that is faster on GPUs.
  double orthogonalization_epsilon = 0;
  // The seed of the random numbers. It must be the same on all ranks.
  std::uint64_t seed = 0;
};

}  // namespace dtrain
