#include "data/mixture/source_reader.h"

#include <fmt/format.h>

#include <utility>

#include "data/base/random_bits.h"
#include "data/mixture/mixture_plan.h"
#include "data/order/order_state.h"
#include "data/order/row_order.h"

namespace dtrain::data {
SourceReader::SourceReader(const ParquetLoaderOptions& options, std::string name)
    : name_(std::move(name)),
      files_(mixture_name, options),
      seed_(options.seed),
      window_(options.shuffle ? files_.window(options.window_size_bytes) : 0) {
  if (options.fully_executed && window_ != RowOrder::whole_set && files_.set().is_remote()) {
    refuse_mixture(fmt::format(
        "fully_executed is for files of this machine, which stay in its memory once they are read; those of "
        "source '{}' are in an object store. Leave it out, or copy the files here",
        name_));
  }
}

// A window of all rows reads all files before the first row anyhow.
void SourceReader::read_through(const std::atomic<bool>& stop) const {
  if (window_ != RowOrder::whole_set) files_.set().read_through(stop);
}

std::uint64_t SourceReader::files_digest() const {
  std::uint64_t digest = files_.set().digest();
  for (const char letter : name_) digest = mixed(digest + static_cast<unsigned char>(letter) + 1);
  return digest;
}

std::uint64_t SourceReader::order_digest() const {
  return mixed(mixed(seed_ + 1) + static_cast<std::uint64_t>(window_));
}

void SourceReader::go_to(std::uint64_t epoch, std::int64_t taken) {
  if (epoch != epoch_ || taken != taken_) reader_.reset();
  epoch_ = epoch;
  taken_ = taken;
}

// Epoch e of the mixture begins with epoch e of each source. Those that the source needs in addition have numbers that
// no epoch of the mixture has.
std::optional<HostBatch> SourceReader::next(std::int64_t count, bool is_own, const std::atomic<bool>& stop,
                                            LoaderTimes& times) {
  // What was stopped or has failed is not used again.
  std::unique_ptr<EpochReader> reader = std::move(reader_);
  if (!reader) {
    const auto again = static_cast<std::uint64_t>(taken_ / rows());
    const OrderState at{
        .epoch = epoch_ + (again << 32), .rows_done = taken_ % rows(), .seed = seed_, .window = window_};
    reader = std::make_unique<EpochReader>(files_.parts(), at);
  }
  const std::int64_t own = is_own ? count : 0;
  std::optional<HostBatch> batch = reader->next({.batch_rows = count, .first = 0, .rows = own}, stop, times);
  taken_ += count;
  if (batch && taken_ % rows() != 0) reader_ = std::move(reader);
  return batch;
}

}  // namespace dtrain::data
