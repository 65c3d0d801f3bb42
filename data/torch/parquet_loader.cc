// A BatchLoader's batches as torch's tensors; see include/dtrain/parquet_loader.h.
#include "dtrain/parquet_loader.h"

#include <utility>

#include "data/loader/batch_loader.h"
#include "data/torch/loaded_batch.h"
#include "data/torch/torch_memory.h"

namespace dtrain {

class ParquetLoader::Impl : public data::BatchLoader {
 public:
  Impl(ParquetLoaderOptions options, data::BlockAllocator allocate)
      : BatchLoader(std::move(options), std::move(allocate)) {}
};

ParquetLoader::ParquetLoader(ParquetLoaderOptions options) {
  auto allocate = data::batch_allocator("ParquetLoader", options.pin_memory);
  impl_ = std::make_unique<Impl>(std::move(options), std::move(allocate));
}
ParquetLoader::~ParquetLoader() = default;
ParquetLoader::ParquetLoader(ParquetLoader&&) noexcept = default;
ParquetLoader& ParquetLoader::operator=(ParquetLoader&&) noexcept = default;

std::optional<LoadedBatch> ParquetLoader::next() {
  std::optional<data::HostBatch> host = impl_->next();
  if (!host) return std::nullopt;
  return data::loaded_batch(std::move(*host), impl_->names());
}

std::uint64_t ParquetLoader::epoch() const { return impl_->epoch(); }
void ParquetLoader::set_epoch(std::uint64_t epoch) { impl_->set_epoch(epoch); }
std::string ParquetLoader::state() const { return impl_->state(); }
void ParquetLoader::load_state(const std::string& state) { impl_->load_state(state); }
LoaderTimes ParquetLoader::times() const { return impl_->times(); }
std::int64_t ParquetLoader::rows() const { return impl_->rows(); }
std::int64_t ParquetLoader::batches() const { return impl_->batches(); }

}  // namespace dtrain
