// Collectives that only move data, and reduce; see cpu_backend.h.
#include <algorithm>
#include <span>

#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/comm/backend/flight_notes.h"
#include "strategies/comm/backend/tensors.h"

namespace dtrain {
namespace {

// One for each rank, all like `like`.
void check_parts(const std::vector<at::Tensor>& parts, int ranks, const at::Tensor& like, const char* op) {
  TORCH_CHECK(parts.size() == static_cast<std::size_t>(ranks), "dtrain: ", op, " needs one tensor for each of the ",
              ranks, " ranks, not ", parts.size());
  for (const at::Tensor& part : parts) {
    check_dense_cpu(part);
    TORCH_CHECK(part.scalar_type() == like.scalar_type() && part.numel() == like.numel(), "dtrain: ", op,
                " needs tensors of one type and size");
  }
}

// The root's list of one tensor for each rank; elsewhere there is none.
std::vector<at::Tensor> parts_at_root(const std::vector<std::vector<at::Tensor>>& lists, bool is_root, const char* op) {
  TORCH_CHECK(lists.size() == (is_root ? 1U : 0U), "dtrain: ", op, is_root ? " needs" : " takes",
              " a list of tensors at the root", is_root ? "" : " alone");
  return is_root ? share(lists[0]) : std::vector<at::Tensor>();
}

// That cut() can be called.
void check_cut(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int ranks, const char* which) {
  check_dense_cpu(tensor);
  TORCH_CHECK(tensor.dim() > 0, "dtrain: all_to_all needs an ", which, " with a dimension");
  const std::int64_t rows = tensor.size(0);
  TORCH_CHECK(!splits.empty() || rows % ranks == 0, "dtrain: all_to_all without split sizes needs an ", which,
              " whose ", rows, " rows can be divided by the ", ranks, " ranks");
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK(split >= 0, "dtrain: all_to_all: a split size of the ", which, " is ", split);
    sum += split;
  }
  TORCH_CHECK(splits.empty() || (splits.size() == static_cast<std::size_t>(ranks) && sum == rows),
              "dtrain: all_to_all: the ", which, " has ", rows, " rows, and ", splits.size(), " split sizes for ",
              ranks, " ranks that make ", sum);
}

// Between hosts a part may come before the one in its place has gone. What is not contiguous is copied before or after.
void check_apart(const at::Tensor& output, at::TensorList inputs) {
  for (const at::Tensor& input : inputs)
    TORCH_CHECK(!output.is_contiguous() || !input.is_contiguous() ||
                    at::get_overlap_status(output, input) == at::MemOverlapStatus::No,
                "dtrain: all_to_all needs an output that does not overlap its input");
}

// What of `tensor` is each rank's: rows of its first dimension, as many as `splits` says, or equal parts.
template <class Byte>
auto cut(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int ranks) {
  c10::SmallVector<std::span<Byte>, 8> parts(static_cast<std::size_t>(ranks));  // to allocate takes a while
  const std::size_t each =
      tensor.nbytes() / static_cast<std::size_t>(splits.empty() ? ranks : std::max<std::int64_t>(tensor.size(0), 1));
  Byte* data = bytes_of(tensor);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r] = {data, splits.empty() ? each : static_cast<std::size_t>(splits[r]) * each};
    data += parts[r].size();
  }
  return parts;
}

// Where each rank's part of a contiguous tensor lies; all are equal.
template <class Byte>
std::vector<Byte*> places_in(const at::Tensor& tensor, int ranks) {
  const std::size_t bytes = tensor.nbytes() / static_cast<std::size_t>(ranks);
  std::vector<Byte*> places(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < places.size(); ++r) places[r] = bytes_of(tensor) + r * bytes;
  return places;
}

}  // namespace

// One of `parts` is each rank's.
CpuBackend::Steps CpuBackend::gather_steps(const Tensors& parts, const at::Tensor& input) {
  check_dense_cpu(input);
  for (const at::Tensor& part : parts) {
    check_writable(part);
    TORCH_CHECK(part.scalar_type() == input.scalar_type() && part.numel() == input.numel(),
                "dtrain: all_gather needs outputs of the input's type and size");
  }
  if (getSize() == 1) copy_alone(parts[0], input);
  return [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    into_places(parts, [&](const std::vector<std::byte*>& places) {
      group_->all_gather(bytes_of(source), places, source.nbytes(), timeout);
    });
  };
}

CpuBackend::WorkPtr CpuBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  const at::Tensor input = only(inputs, "all_gather");
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(getSize()),
              "dtrain: all_gather needs one output tensor for each of the ", getSize(), " ranks");
  const Tensors parts = share(outputs[0]);
  return enqueue(c10d::OpType::ALLGATHER, parts, {options.timeout, options.asyncOp}, gather_steps(parts, input));
}

// Each of `outputs` is one rank's, with a tensor for each of `inputs`.
CpuBackend::WorkPtr CpuBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const Tensors sources = share(inputs);
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(getSize()), "dtrain: all_gather needs a list of outputs for ",
              "each of the ", getSize(), " ranks, not ", outputs.size());
  std::vector<Tensors> lists;
  Tensors all;
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == sources.size(), "dtrain: all_gather needs as many outputs of each rank as inputs");
    lists.push_back(share(list));
    all.insert(all.end(), lists.back().begin(), lists.back().end());
  }
  std::vector<Steps> each;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Tensors parts;
    for (const Tensors& list : lists) parts.push_back(list[i]);
    each.push_back(gather_steps(parts, sources[i]));
  }
  return enqueue(c10d::OpType::ALLGATHER_COALESCED, all, {options.timeout, options.asyncOp}, in_turn(std::move(each)));
}

auto CpuBackend::all_gather_steps(const at::Tensor& output, const at::Tensor& input) {
  check_dense_cpu(input);
  check_writable(output);
  TORCH_CHECK(output.scalar_type() == input.scalar_type() && output.numel() == input.numel() * getSize(),
              "dtrain: all_gather needs an output of the input's type and ", getSize(), " times its size");
  if (getSize() == 1) copy_alone(output, input);
  return [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    into_place(output, [&](const at::Tensor& t) {
      group_->all_gather(bytes_of(source), places_in<std::byte>(t, getSize()), source.nbytes(), timeout);
    });
  };
}

CpuBackend::WorkPtr CpuBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& options) {
  const at::Tensor into = share(output);
  return enqueue(c10d::OpType::_ALLGATHER_BASE, {into}, {options.timeout, options.asyncOp},
                 all_gather_steps(into, share(input)));
}

void CpuBackend::all_gather_now(const at::Tensor& output, const at::Tensor& input) {
  carry_out_now(c10d::OpType::_ALLGATHER_BASE, output, {default_timeout(), false}, all_gather_steps(output, input));
}

CpuBackend::WorkPtr CpuBackend::allgather_into_tensor_coalesced(Tensors& into, Tensors& from,
                                                                const c10d::AllgatherOptions& options) {
  const Tensors outputs = share(into);
  const Tensors inputs = share(from);
  TORCH_CHECK(outputs.size() == inputs.size(), "dtrain: all_gather needs as many outputs as inputs");
  std::vector<Steps> each;
  for (std::size_t i = 0; i < inputs.size(); ++i) each.emplace_back(all_gather_steps(outputs[i], inputs[i]));
  return enqueue(c10d::OpType::_ALLGATHER_BASE, outputs, {options.timeout, options.asyncOp}, in_turn(std::move(each)));
}

CpuBackend::WorkPtr CpuBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only_writable(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(getSize()),
              "dtrain: reduce_scatter needs one input tensor for each of the ", getSize(), " ranks");
  const Tensors parts = share(inputs[0]);
  bool equal = true;
  for (const at::Tensor& part : parts) {
    check_dense_cpu(part);
    TORCH_CHECK(part.scalar_type() == output.scalar_type(), "dtrain: reduce_scatter needs inputs of the output's type");
    equal = equal && part.numel() == output.numel();
  }
  const at::Tensor own = parts[static_cast<std::size_t>(getRank())];
  TORCH_CHECK(own.numel() == output.numel(), "dtrain: reduce_scatter needs an output of the size of this rank's part, ",
              own.numel(), " elements, not ", output.numel());
  const ElementType type = element_type(output);
  const Reduction reduction = reduction_of(options.reduceOp, output);
  if (getSize() == 1) copy_alone(output, own);
  How how{options.timeout, options.asyncOp, -1, name_of(reduction)};
  how.alike = parts;
  return enqueue(c10d::OpType::REDUCE_SCATTER, outputs, how, [=, this](Timeout timeout) {
    if (!equal) return reduce_each(parts, output, reduction, timeout);
    from_places(parts, [&](const std::vector<const std::byte*>& places) {
      into_place(output, [&](const at::Tensor& t) {
        group_->reduce_scatter(places, bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, timeout);
      });
    });
  });
}

// Parts of different sizes: each is reduced to its rank.
void CpuBackend::reduce_each(const Tensors& parts, const at::Tensor& output, Reduction reduction, Timeout timeout) {
  for (int r = 0; r < getSize(); ++r) {
    const at::Tensor& part = parts[static_cast<std::size_t>(r)];
    if (r == getRank()) copy_alone(output, part);
    // The memory of other ranks' parts is only read.
    in_place(r == getRank() ? output : part.contiguous(), [&](const at::Tensor& t) {
      group_->reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), element_type(t), reduction, r, timeout);
    });
  }
}

auto CpuBackend::reduce_scatter_steps(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op) {
  check_dense_cpu(input);
  check_writable(output);
  TORCH_CHECK(input.scalar_type() == output.scalar_type() && input.numel() == output.numel() * getSize(),
              "dtrain: reduce_scatter needs an input of the output's type and ", getSize(), " times its size");
  const ElementType type = element_type(output);
  const Reduction reduction = reduction_of(op, output);
  if (getSize() == 1) copy_alone(output, input);
  return [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    into_place(output, [&](const at::Tensor& t) {
      group_->reduce_scatter(places_in<const std::byte>(source, getSize()), bytes_of(t),
                             static_cast<std::size_t>(t.numel()), type, reduction, timeout);
    });
  };
}

CpuBackend::WorkPtr CpuBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  const at::Tensor into = share(output);
  const auto steps = reduce_scatter_steps(into, share(input), options.reduceOp);
  return enqueue(c10d::OpType::_REDUCE_SCATTER_BASE, {into},
                 {options.timeout, options.asyncOp, -1, flight_reduction(options.reduceOp, into)}, steps);
}

void CpuBackend::reduce_scatter_now(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op) {
  const auto steps = reduce_scatter_steps(output, input, op);
  carry_out_now(c10d::OpType::_REDUCE_SCATTER_BASE, output,
                {default_timeout(), false, -1, flight_reduction(op, output)}, steps);
}

CpuBackend::WorkPtr CpuBackend::reduce_scatter_tensor_coalesced(Tensors& into, Tensors& from,
                                                                const c10d::ReduceScatterOptions& options) {
  const Tensors outputs = share(into);
  const Tensors inputs = share(from);
  TORCH_CHECK(outputs.size() == inputs.size(), "dtrain: reduce_scatter needs as many outputs as inputs");
  std::vector<Steps> each;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    each.emplace_back(reduce_scatter_steps(outputs[i], inputs[i], options.reduceOp));
  return enqueue(c10d::OpType::_REDUCE_SCATTER_BASE, outputs,
                 {options.timeout, options.asyncOp, -1, flight_reduction(options.reduceOp, outputs)},
                 in_turn(std::move(each)));
}

int CpuBackend::root_of(std::int64_t rank, const char* op) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "dtrain: ", op, " names rank ", rank,
              " as the root, but the ranks are 0 to ", getSize() - 1);
  return static_cast<int>(rank);
}

CpuBackend::WorkPtr CpuBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = only_writable(tensors, "reduce");
  const ElementType type = element_type(tensor);
  const Reduction reduction = reduction_of(options.reduceOp, tensor);
  const int root = root_of(options.rootRank, "reduce");
  const How how{options.timeout, options.asyncOp, root, name_of(reduction)};
  return enqueue(c10d::OpType::REDUCE, tensors, how, [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) {
      group_->reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, root, timeout);
    });
  });
}

CpuBackend::WorkPtr CpuBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& options) {
  const at::Tensor input = only(inputs, "gather");
  const int root = root_of(options.rootRank, "gather");
  const Tensors parts = parts_at_root(outputs, getRank() == root, "gather");
  if (getRank() == root) check_parts(parts, getSize(), input, "gather");
  for (const at::Tensor& part : parts) check_writable(part);
  if (getSize() == 1) copy_alone(parts[0], input);
  const How how{options.timeout, options.asyncOp, root, nullptr, input};
  return enqueue(c10d::OpType::GATHER, parts, how, [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    into_places(parts, [&](const std::vector<std::byte*>& places) {
      group_->gather(bytes_of(source), places, source.nbytes(), root, timeout);
    });
  });
}

CpuBackend::WorkPtr CpuBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ScatterOptions& options) {
  const at::Tensor output = only_writable(outputs, "scatter");
  const int root = root_of(options.rootRank, "scatter");
  const Tensors parts = parts_at_root(inputs, getRank() == root, "scatter");
  if (getRank() == root) check_parts(parts, getSize(), output, "scatter");
  if (getSize() == 1) copy_alone(output, parts[0]);
  return enqueue(c10d::OpType::SCATTER, outputs, {options.timeout, options.asyncOp, root}, [=, this](Timeout timeout) {
    from_places(parts, [&](const std::vector<const std::byte*>& places) {
      in_place(output, [&](const at::Tensor& t) { group_->scatter(places, bytes_of(t), t.nbytes(), root, timeout); });
    });
  });
}

CpuBackend::WorkPtr CpuBackend::alltoall(Tensors& into, Tensors& from, const c10d::AllToAllOptions& options) {
  const Tensors outputs = share(into);
  const Tensors inputs = share(from);
  const auto ranks = static_cast<std::size_t>(getSize());
  TORCH_CHECK(outputs.size() == ranks && inputs.size() == ranks, "dtrain: all_to_all needs ", ranks,
              " inputs and outputs, one for each rank, not ", inputs.size(), " and ", outputs.size());
  for (const at::Tensor& input : inputs) check_dense_cpu(input);
  for (const at::Tensor& output : outputs) {
    check_writable(output);
    if (ranks > 1) check_apart(output, inputs);
  }
  if (ranks == 1) copy_alone(outputs[0], inputs[0]);
  const How how{options.timeout, options.asyncOp, -1, nullptr, inputs, true};
  return enqueue(c10d::OpType::ALLTOALL, outputs, how, [=, this](Timeout timeout) {
    from_places(inputs, [&](const std::vector<const std::byte*>& staged) {
      into_places(outputs, [&](const std::vector<std::byte*>& places) {
        std::vector<std::span<const std::byte>> sources;
        std::vector<std::span<std::byte>> targets;
        for (std::size_t r = 0; r < places.size(); ++r) {
          sources.emplace_back(staged[r], inputs[r].nbytes());
          targets.emplace_back(places[r], outputs[r].nbytes());
        }
        group_->all_to_all(sources, targets, timeout);
      });
    });
  });
}

auto CpuBackend::all_to_all_steps(const at::Tensor& output, const at::Tensor& input,
                                  const std::vector<std::int64_t>& output_rows,
                                  const std::vector<std::int64_t>& input_rows) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "dtrain: all_to_all needs an output of the input's type");
  check_cut(output, output_rows, getSize(), "output");
  check_cut(input, input_rows, getSize(), "input");
  check_writable(output);
  if (getSize() > 1) check_apart(output, input);
  if (getSize() == 1) copy_alone(output, input);
  return [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    into_place(output, [&](const at::Tensor& t) {
      const auto inputs = cut<const std::byte>(source, input_rows, getSize());
      const auto outputs = cut<std::byte>(t, output_rows, getSize());
      group_->all_to_all({inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, timeout);
    });
  };
}

CpuBackend::WorkPtr CpuBackend::alltoall_base(at::Tensor& into, at::Tensor& from,
                                              std::vector<std::int64_t>& output_splits,
                                              std::vector<std::int64_t>& input_splits,
                                              const c10d::AllToAllOptions& options) {
  const at::Tensor output = share(into);
  return enqueue(c10d::OpType::ALLTOALL_BASE, {output}, {options.timeout, options.asyncOp, -1, nullptr, from, true},
                 all_to_all_steps(output, share(from), output_splits, input_splits));
}

void CpuBackend::all_to_all_now(const at::Tensor& output, const at::Tensor& input) {
  carry_out_now(c10d::OpType::ALLTOALL_BASE, output, {default_timeout(), false, -1, nullptr, input, true},
                all_to_all_steps(output, input, {}, {}));
}

}  // namespace dtrain
