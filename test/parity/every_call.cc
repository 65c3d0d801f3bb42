// Every collective of a group on the device of the session, with all kinds of tensors: types, strides, no elements, and
// on a GPU work that is still in a stream when the collective is called. What comes out is compared with what the ranks
// must get. Says what is wrong, and then ends with 1.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"
#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

using namespace dtrain;

struct Checks {
  Session& session;
  int failed = 0, done = 0;

  // What throws has failed, too: the other ranks' calls are the same, so they throw as well.
  void check(const std::string& what, const std::function<bool()>& holds) {
    ++done;
    std::string why = "the values are wrong";
    try {
      if (holds()) return;
    } catch (const std::exception& error) {
      why = std::string(error.what()).substr(0, 300);
    }
    ++failed;
    fmt::print("rank {}: {}: {}\n", session.rank(), what, why);
  }
  int rank() const { return session.rank(); }
  int size() const { return session.world_size(); }
  torch::TensorOptions of(torch::ScalarType type) const { return torch::TensorOptions(session.device()).dtype(type); }
  // 1 + 2 + ... of all ranks.
  int sum() const { return size() * (size() + 1) / 2; }
};

bool all_equal(const torch::Tensor& tensor, double value) {
  return tensor.to(torch::kCPU, torch::kDouble).eq(value).all().item<bool>();
}

void reductions(Checks& c) {
  using Op = c10d::ReduceOp;
  const std::vector<torch::ScalarType> types{torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,
                                             torch::kInt,   torch::kLong,   torch::kByte, torch::kShort};
  double product = 1;
  for (int i = 1; i <= c.size(); ++i) product *= i;
  for (const auto type : types) {
    const std::vector<std::pair<Op, double>> expected{
        {Op::SUM, c.sum()}, {Op::PRODUCT, product}, {Op::MIN, 1}, {Op::MAX, c.size()}};
    for (const auto& [op, value] : expected)
      c.check(fmt::format("all_reduce {} of {}", int(op), c10::toString(type)), [&, op = op, value = value] {
        const auto tensor = torch::full({1003}, c.rank() + 1, c.of(type));
        c.session.all_reduce(tensor, op);
        return all_equal(tensor, value);
      });
  }
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16})
    c.check(fmt::format("all_reduce AVG of {}", c10::toString(type)), [&] {
      const auto tensor = torch::full({17, 3}, 2 * (c.rank() + 1), c.of(type));
      c.session.all_reduce(tensor, Op::AVG);
      return all_equal(tensor, c.size() + 1);
    });
  for (const auto type : {torch::kInt, torch::kByte, torch::kShort})
    c.check(fmt::format("all_reduce BOR of {}", c10::toString(type)), [&] {
      const auto tensor = torch::full({9}, 1 << c.rank(), c.of(type));
      c.session.all_reduce(tensor, Op::BOR);
      return all_equal(tensor, (1 << c.size()) - 1);
    });
  c.check("all_reduce of bool", [&] {
    const auto tensor = torch::full({5}, c.rank() == 0, c.of(torch::kBool));
    c.session.all_reduce(tensor, Op::SUM);
    return all_equal(tensor, 1);
  });
  c.check("all_reduce of complex numbers", [&] {
    const auto tensor = torch::full({5}, c10::complex<double>(c.rank() + 1, 1), c.of(torch::kComplexDouble));
    c.session.all_reduce(tensor);
    return all_equal(torch::real(tensor), c.sum()) && all_equal(torch::imag(tensor), c.size());
  });
  c.check("all_reduce of a sparse tensor", [&] {
    const auto dense = torch::zeros({6, 2}, c.of(torch::kFloat));
    dense[c.rank()].fill_(c.rank() + 1);
    const auto sparse = dense.to_sparse();
    c.session.all_reduce(sparse);
    const auto got = sparse.to_dense().cpu();
    bool right = true;
    for (int i = 0; i < c.size(); ++i) right = right && all_equal(got[i], i + 1);
    return right;
  });
}

// The tensors of others are laid out in another way: values go by place, not by memory.
void strides(Checks& c) {
  const auto numbers = [&] { return torch::arange(12, c.of(torch::kFloat)).view({3, 4}); };
  const auto laid_out = [&](int kind) {
    const auto tensor = kind == 0   ? torch::empty({3, 4}, c.of(torch::kFloat))
                        : kind == 1 ? torch::empty({4, 3}, c.of(torch::kFloat)).t()
                                    : torch::empty({3, 9}, c.of(torch::kFloat)).slice(1, 1, 9, 2);
    return tensor;
  };
  for (int kind = 1; kind < 3; ++kind) {
    const std::string how = kind == 1 ? "transposed" : "with gaps";
    c.check("all_reduce " + how, [&] {
      const auto tensor = laid_out(c.rank() % 2 == 0 ? kind : 0);
      tensor.copy_(numbers() * (c.rank() + 1));
      c.session.all_reduce(tensor);
      return torch::equal(tensor, numbers() * c.sum());
    });
    c.check("broadcast " + how, [&] {
      const auto tensor = laid_out(c.rank() % 2 == 0 ? kind : 0);
      tensor.copy_(numbers() + c.rank());
      c.session.broadcast(tensor, c.size() - 1);
      return torch::equal(tensor, numbers() + (c.size() - 1));
    });
    c.check("all_gather of a tensor " + how, [&] {
      const auto input = laid_out(kind);
      input.copy_(numbers() + 100 * c.rank());
      auto output = torch::empty({c.size() * 3, 4}, c.of(torch::kFloat));
      c.session.world().all_gather(output, input);
      bool right = true;
      for (int i = 0; i < c.size(); ++i)
        right = right && torch::equal(output.slice(0, 3 * i, 3 * i + 3), numbers() + 100 * i);
      return right;
    });
    c.check("reduce_scatter into a tensor " + how, [&] {
      const auto input = torch::cat(std::vector<torch::Tensor>(std::size_t(c.size()), numbers()));
      const auto output = laid_out(kind);
      c.session.world().reduce_scatter(output, input);
      return torch::equal(output, numbers() * c.size());
    });
    if (c.size() > 1)
      c.check("send and recv " + how, [&] {
        const auto tensor = laid_out(kind);
        const Group& world = c.session.world();
        if (c.rank() == 0) {
          tensor.copy_(numbers());
          world.send(tensor, 1);
        } else if (c.rank() == 1) {
          world.recv(tensor, 0);
          return torch::equal(tensor, numbers());
        }
        return true;
      });
  }
}

void others(Checks& c) {
  const Group& world = c.session.world();
  c.check("barrier", [&] {
    world.barrier();
    return true;
  });
  for (const auto type :
       {torch::kFloat, torch::kBFloat16, torch::kLong, torch::kShort, torch::kBool, torch::kFloat8_e4m3fn}) {
    const std::string name = c10::toString(type);
    c.check("broadcast of " + name, [&] {
      const auto tensor = torch::full({33}, c.rank() == 0, c.of(torch::kFloat)).to(type);
      world.broadcast(tensor, 0);
      return all_equal(tensor.to(torch::kFloat), 1);
    });
    c.check("all_gather of " + name, [&] {
      const auto input = torch::full({7}, c.rank() % 2, c.of(torch::kFloat)).to(type);
      const auto output = torch::empty({7 * c.size()}, c.of(type));
      world.all_gather(output, input);
      bool right = true;
      for (int i = 0; i < c.size(); ++i)
        right = right && all_equal(output.slice(0, 7 * i, 7 * i + 7).to(torch::kFloat), i % 2);
      return right;
    });
  }
  c.check("reduce_scatter", [&] {
    const auto input = torch::arange(4 * c.size(), c.of(torch::kFloat));
    const auto output = torch::empty({4}, c.of(torch::kFloat));
    world.reduce_scatter(output, input);
    return torch::equal(output, input.slice(0, 4 * c.rank(), 4 * c.rank() + 4) * c.size());
  });
  c.check("reduce_scatter BXOR", [&] {
    const auto input = torch::arange(4 * c.size(), c.of(torch::kInt)) + c.rank();
    const auto output = torch::empty({4}, c.of(torch::kInt));
    world.reduce_scatter(output, input, c10d::ReduceOp::BXOR);
    auto expected = torch::zeros({4}, c.of(torch::kInt));
    for (int i = 0; i < c.size(); ++i)
      expected = expected.bitwise_xor(torch::arange(4, c.of(torch::kInt)) + 4 * c.rank() + i);
    return torch::equal(output, expected);
  });
  c.check("all_to_all", [&] {
    const auto input = torch::arange(2 * c.size(), c.of(torch::kFloat)) + 1000 * c.rank();
    const auto output = torch::empty_like(input);
    world.all_to_all(output, input);
    bool right = true;
    for (int i = 0; i < c.size(); ++i)
      right = right && output[2 * i].item<double>() == 1000 * i + 2 * c.rank() &&
              output[2 * i + 1].item<double>() == 1000 * i + 2 * c.rank() + 1;
    return right;
  });
  c.check("tensors without elements", [&] {
    const auto nothing = torch::empty({0, 3}, c.of(torch::kFloat));
    world.all_reduce(nothing);
    world.broadcast(nothing, 0);
    world.all_gather(torch::empty({0, 3}, c.of(torch::kFloat)), nothing);
    world.reduce_scatter(torch::empty({0, 3}, c.of(torch::kFloat)), nothing);
    return true;
  });
  c.check("a message around the ring", [&] {
    const auto token = torch::full({70'000}, c.rank(), c.of(torch::kFloat));
    if (c.size() == 1) return true;
    const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
    const auto got = torch::empty_like(token);
    if (c.rank() == 0) {
      world.send(token, next);
      world.recv(got, before);
    } else {
      world.recv(got, before);
      world.send(token, next);
    }
    return all_equal(got, before);
  });
  c.check("groups of some ranks", [&] {
    Group parts = c.session.split(c.rank() % 2);
    const auto tensor = torch::full({1000}, c.rank() + 1, c.of(torch::kFloat));
    parts.all_reduce(tensor);
    double expected = 0;
    for (int i = c.rank() % 2; i < c.size(); i += 2) expected += i + 1;
    const bool right = all_equal(tensor, expected);
    parts.end();
    return right;
  });
  c.check("a CPU tensor beside", [&] {
    const auto tensor = torch::full({1000}, c.rank() + 1, torch::kDouble);
    world.all_reduce(tensor);
    return all_equal(tensor, c.sum());
  });
}

#ifdef USE_C10D_NCCL
// The tensor is made by kernels that run long after the call, and read by kernels that are called at once after it.
void streams(Checks& c) {
  if (!c.session.device().is_cuda()) return;
  const auto slow = [&](const torch::Tensor& tensor, double value) {
    auto work = torch::full({2048, 2048}, 1.0 / 2048, c.of(torch::kFloat));
    for (int i = 0; i < 200; ++i) work = torch::mm(work, work);  // stays the same
    tensor.copy_((work.flatten().slice(0, 0, tensor.numel()) * 2048).round() * value);
  };
  for (const bool side : {false, true})
    for (int turn = 0; turn < 5; ++turn)
      c.check(side ? "a tensor of a side stream" : "a tensor of the usual stream", [&] {
        const auto stream = side ? c10::cuda::getStreamFromPool(false, c.session.device().index())
                                 : c10::cuda::getDefaultCUDAStream(c.session.device().index());
        torch::Tensor doubled;
        {
          const c10::cuda::CUDAStreamGuard guard(stream);
          const auto tensor = torch::zeros({1 << 20}, c.of(torch::kFloat));
          slow(tensor, c.rank() + 1);
          c.session.all_reduce(tensor);
          doubled = tensor * 2;
          // Its memory may be used again, in this stream, while the collective runs.
          torch::Tensor temporary = torch::zeros({1 << 20}, c.of(torch::kFloat));
          slow(temporary, c.rank() + 1);
          c.session.all_reduce(temporary);
          temporary = torch::Tensor();
          torch::full({1 << 20}, -1.0, c.of(torch::kFloat));
          stream.synchronize();
        }
        return all_equal(doubled, 2 * c.sum());
      });
}
#endif

}  // namespace

int main() {
  torch::set_num_threads(1);
  Session session = init();
  Checks checks{session};
  reductions(checks);
  strides(checks);
  others(checks);
#ifdef USE_C10D_NCCL
  streams(checks);
#endif
  fmt::print("rank {} of {} on {}: {} of {} checks hold\n", session.rank(), session.world_size(),
             session.device().str(), checks.done - checks.failed, checks.done);
  std::fflush(stdout);
  session.shutdown();
  return checks.failed == 0 ? 0 : 1;
}
