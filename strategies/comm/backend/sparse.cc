// See sparse.h.
#include "strategies/comm/backend/sparse.h"

#include <fmt/format.h>

#include "strategies/comm/backend/tensors.h"
#include "strategies/comm/groups/call_check.h"

namespace dtrain {
namespace {

// Where the values lie, each place as one number: in the order of coalesced tensors.
at::Tensor numbered(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor places = at::zeros({indices.size(1)}, at::kLong);
  for (std::int64_t d = 0; d < indices.size(0); ++d)
    places = places * sizes[static_cast<std::size_t>(d)] + indices.select(0, d);
  return places;
}

at::Tensor indices_of(at::Tensor places, at::IntArrayRef sizes, std::int64_t dimensions) {
  at::Tensor indices = at::empty({dimensions, places.numel()}, at::kLong);
  for (std::int64_t d = dimensions - 1; d >= 0; --d) {
    const std::int64_t size = std::max<std::int64_t>(sizes[static_cast<std::size_t>(d)], 1);  // 0: there are none
    indices.select(0, d).copy_(places.remainder(size));
    places = places.floor_divide(size);
  }
  return indices;
}

void gather(const SparseCall& call, const at::Tensor& own, const at::Tensor& all) {
  std::vector<std::byte*> rows;
  for (int r = 0; r < call.ranks; ++r) rows.push_back(bytes_of(all) + static_cast<std::size_t>(r) * own.nbytes());
  call.group.all_gather(bytes_of(own), rows, own.nbytes(), call.timeout);
}

// All places at which some rank has a value, in order.
at::Tensor places_of_all(const SparseCall& call, const at::Tensor& own) {
  const at::Tensor counts = at::empty({call.ranks}, at::kLong);
  gather(call, at::full({1}, own.numel(), at::kLong), counts);
  const auto most = counts.max().item<std::int64_t>();
  const at::Tensor padded = at::zeros({most}, at::kLong);
  padded.narrow(0, 0, own.numel()).copy_(own);
  const at::Tensor all = at::empty({call.ranks, most}, at::kLong);
  gather(call, padded, all);
  std::vector<at::Tensor> places;
  for (int r = 0; r < call.ranks; ++r)
    places.push_back(all.select(0, r).narrow(0, 0, counts.select(0, r).item<std::int64_t>()));
  return std::get<0>(at::_unique(at::cat(places), /*sorted=*/true));
}

}  // namespace

void all_reduce_sparse(const SparseCall& call, const at::Tensor& tensor, Reduction reduction) {
  require_same_calls(call.group, call.rank, call.ranks,
                     fmt::format("all_reduce {} of sparse {} with {} sparse dimensions", name_of(reduction),
                                 type_and_shape(tensor), tensor.sparse_dim()),
                     call.timeout);
  const at::Tensor own = tensor.coalesce();
  const at::Tensor own_places = numbered(own.indices(), own.sizes());
  const at::Tensor places = places_of_all(call, own_places);
  std::vector<std::int64_t> shape{places.numel()};
  for (const std::int64_t size : tensor.sizes().slice(static_cast<std::size_t>(tensor.sparse_dim())))
    shape.push_back(size);
  const at::Tensor values = at::zeros(shape, tensor.scalar_type());
  values.index_copy_(0, at::searchsorted(places, own_places), own.values());
  call.group.all_reduce(bytes_of(values), static_cast<std::size_t>(values.numel()), element_type(values), reduction,
                        call.timeout);
  at::Tensor(tensor).copy_(at::_sparse_coo_tensor_unsafe(indices_of(places, tensor.sizes(), tensor.sparse_dim()),
                                                         values, tensor.sizes(), tensor.options(),
                                                         /*is_coalesced=*/true));
}

void coalesce_alone(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor(tensor).copy_(tensor.coalesce());
}

}  // namespace dtrain
