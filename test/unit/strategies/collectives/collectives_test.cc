// Collectives over a backend that takes as little as NCCL does, on CPU tensors: one rank of two, whose other rank
// always has the same tensors.
#include "strategies/collectives/collectives.h"

#include "strategies/torch/compat.h"
#include "test/support/catch.h"

using namespace dtrain;
using Op = c10d::ReduceOp;

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// torch has no names for NCCL's lack: it throws TypeError.
void needs(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided && tensor.is_contiguous(), "gaps, or another order");
  constexpr at::ScalarType kKnown[] = {at::kChar, at::kByte,   at::kBool,  at::kInt,     at::kLong,
                                       at::kHalf, at::kDouble, at::kFloat, at::kBFloat16};
  TORCH_CHECK(std::find(std::begin(kKnown), std::end(kKnown), tensor.scalar_type()) != std::end(kKnown),
              tensor.scalar_type());
}

struct Done : c10d::Work {
  bool wait(std::chrono::milliseconds) override { return true; }
};

class LikeNccl : public c10d::Backend {
 public:
  LikeNccl() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "like NCCL"; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    needs(tensors.at(0));
    reduced(options.reduceOp, tensors[0]);
    return {};
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    needs(tensors.at(0));
    calls += 1;
    return options.asyncOp ? WorkPtr(c10::make_intrusive<Done>()) : WorkPtr();
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) override {
    needs(output), needs(input);
    TORCH_CHECK(output.scalar_type() == input.scalar_type() && output.numel() == 2 * input.numel());
    output.view({2, -1}).copy_(input.view({1, -1}));
    return {};
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    needs(output), needs(input);
    TORCH_CHECK(output.scalar_type() == input.scalar_type());
    output.view({1, -1}).copy_(input.view({2, -1}).narrow(0, 0, 1));
    reduced(options.reduceOp, output);
    return {};
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>&, std::vector<std::int64_t>&,
                        const c10d::AllToAllOptions&) override {
    needs(output), needs(input);
    TORCH_CHECK(output.scalar_type() == input.scalar_type());
    const at::Tensor first = input.narrow(0, 0, input.size(0) / 2);
    output.copy_(at::cat({first, first}));
    return {};
  }
  WorkPtr send(Tensors& tensors, int, int) override {
    needs(tensors.at(0));
    sent = tensors[0].clone();
    return {};
  }
  WorkPtr recv(Tensors& tensors, int, int) override {
    needs(tensors.at(0));
    tensors[0].copy_(sent);
    return {};
  }

  at::Tensor sent;
  int calls = 0;

 private:
  static void reduced(const Op& op, const at::Tensor& tensor) {
    TORCH_CHECK(op == Op::SUM, "only SUM");
    tensor.mul_(2);
  }
};

struct Groups {
  c10::intrusive_ptr<LikeNccl> backend = c10::make_intrusive<LikeNccl>();
  GroupPtr group = c10::make_intrusive<c10d::ProcessGroup>(0, 2);
  Groups() {
    group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  }
};

at::Tensor numbers(at::ScalarType type, bool in_order = true) {
  const at::Tensor tensor = at::arange(12, at::kLong).view({4, 3}).to(type);
  return in_order ? tensor : tensor.t().contiguous().t();
}

}  // namespace

TEST_CASE("types that NCCL lacks are moved, and tensors in any order") {
  const auto type = GENERATE(at::kShort, at::kUInt16, at::kUInt32, at::kUInt64, at::kFloat);
  const bool in_order = GENERATE(true, false);
  CAPTURE(type, in_order);
  const Groups its;
  const at::Tensor expected = numbers(type);
  at::Tensor own = numbers(type, in_order);

  broadcast(its.group, own, 0);
  broadcast_all(its.group, {own, numbers(at::kDouble)}, 0);
  CHECK(its.backend->calls == 3);
  CHECK(own.equal(expected));

  at::Tensor all = at::empty({8, 3}, own.options());
  all_gather(its.group, all, own);
  CHECK(all.equal(at::cat({expected, expected})));

  send(its.group, own, 1, 0);
  const at::Tensor got = at::empty_like(own);
  recv(its.group, got, 1, 0);
  CHECK(got.equal(expected));

  at::Tensor from = numbers(type), to = at::empty_like(from);
  all_to_all(its.group, to, from);
  CHECK(to.equal(at::cat({expected.narrow(0, 0, 2), expected.narrow(0, 0, 2)})));
}

TEST_CASE("16-bit integers, bits and sparse tensors are reduced where NCCL cannot") {
  const Groups its;
  at::Tensor small = numbers(at::kShort, false);
  all_reduce(its.group, small);
  CHECK(small.equal(numbers(at::kShort) * 2));
  CHECK(small.scalar_type() == at::kShort);
  const at::Tensor largest = at::full({3}, 32767, at::kShort);
  all_reduce(its.group, largest);  // as 16 bits overflow
  CHECK(largest.equal(at::full({3}, -2, at::kShort)));
  all_reduce(its.group, small, Op::BAND);
  CHECK(small.equal(numbers(at::kShort) * 2));

  at::Tensor whole = numbers(at::kShort), part = at::empty({3, 2}, at::kShort).t();
  reduce_scatter(its.group, part, whole, Op::SUM);
  CHECK(part.equal(whole.narrow(0, 0, 2) * 2));
  reduce_scatter(its.group, part, whole, Op::BXOR);
  CHECK(part.equal(at::zeros_like(part)));

  const at::Tensor sparse = numbers(at::kFloat).to_sparse();
  all_reduce(its.group, sparse);
  CHECK(sparse.is_sparse());
  CHECK(sparse.to_dense().equal(numbers(at::kFloat) * 2));
}
