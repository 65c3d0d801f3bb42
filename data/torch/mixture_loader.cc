// MixtureBatches with torch's tensors; see include/dtrain/mixture_loader.h.
#include "dtrain/mixture_loader.h"

#include <utility>

#include "data/mixture/mixture_batches.h"
#include "data/torch/loaded_batch.h"
#include "data/torch/torch_memory.h"

namespace dtrain {

class MixtureLoader::Impl : public data::MixtureBatches {
 public:
  Impl(MixtureLoaderOptions options, data::BlockAllocator allocate)
      : MixtureBatches(std::move(options), std::move(allocate)) {}
};

MixtureLoader::MixtureLoader(MixtureLoaderOptions options) {
  auto allocate = data::batch_allocator("MixtureLoader", options.pin_memory);
  impl_ = std::make_unique<Impl>(std::move(options), std::move(allocate));
}
MixtureLoader::~MixtureLoader() = default;
MixtureLoader::MixtureLoader(MixtureLoader&&) noexcept = default;
MixtureLoader& MixtureLoader::operator=(MixtureLoader&&) noexcept = default;

std::optional<LoadedBatch> MixtureLoader::next() {
  std::optional<data::HostBatch> host = impl_->next();
  if (!host) return std::nullopt;
  return data::loaded_batch(std::move(*host), impl_->names());
}

std::vector<MixtureSourceInfo> MixtureLoader::sources() const {
  std::vector<MixtureSourceInfo> all;
  for (std::size_t i = 0; i < impl_->sources(); ++i) {
    all.push_back({impl_->name(i), impl_->weight(i), impl_->rows(i), impl_->taken(i)});
  }
  return all;
}

void MixtureLoader::set_weights(const std::map<std::string, double>& weights) { impl_->set_weights(weights); }
std::uint64_t MixtureLoader::epoch() const { return impl_->epoch(); }
void MixtureLoader::set_epoch(std::uint64_t epoch) { impl_->set_epoch(epoch); }
std::string MixtureLoader::state() const { return impl_->state(); }
void MixtureLoader::load_state(const std::string& state) { impl_->load_state(state); }
LoaderTimes MixtureLoader::times() const { return impl_->times(); }

}  // namespace dtrain
