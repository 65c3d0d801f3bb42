#include "data/mixture/source_reader.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "data/base/random_bits.h"
#include "data/flow/row_flow.h"
#include "data/loader/loader_plan.h"
#include "data/mixture/mixture_plan.h"
#include "data/order/order_state.h"
#include "data/order/row_order.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

std::int64_t all_rows(const ParquetSet& set) {
  return std::accumulate(set.group_rows().begin(), set.group_rows().end(), std::int64_t{0});
}

}  // namespace

SourceReader::SourceReader(const ParquetLoaderOptions& options, std::string name)
    : name_(std::move(name)),
      set_(options.paths, wanted_columns(options.columns, options.matrices), options.fill),
      tensors_(tensors_of(set_.columns(), options.matrices)),
      layout_(tensors_),
      rows_(all_rows(set_)),
      seed_(options.seed),
      window_(window(options)) {
  check_fill(set_.columns(), options.fill);
  if (options.fully_executed && window_ != RowOrder::whole_set && set_.is_remote()) {
    refuse_mixture(fmt::format(
        "fully_executed is for files of this machine, which stay in its memory once they are read; those of "
        "source '{}' are in an object store. Leave it out, or copy the files here",
        name_));
  }
  if (rows_ == 0) throw DataError(fmt::format("dtrain: {}: there are no rows", options.paths[0]));
}

std::int64_t SourceReader::window(const ParquetLoaderOptions& options) const {
  if (!options.shuffle || rows_ == 0) return 0;
  const auto ragged = static_cast<std::int64_t>(layout_.ragged.size());
  const RowBytes bytes =
      row_bytes(static_cast<std::int64_t>(layout_.bytes), ragged, set_.group_rows(), set_.group_tails());
  return checked_window(options.window_size_bytes, bytes, rows_, set_.group_rows()[bytes.largest],
                        set_.name_of(bytes.largest));
}

// A window of all rows reads all files before the first row anyhow.
void SourceReader::read_through(const std::atomic<bool>& stop) const {
  if (window_ != RowOrder::whole_set) set_.read_through(stop);
}

std::uint64_t SourceReader::files_digest() const {
  std::uint64_t digest = set_.digest();
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
std::optional<HostBatch> SourceReader::next(std::int64_t rows, bool is_own, const std::atomic<bool>& stop,
                                            LoaderTimes& times) {
  // What was stopped or has failed is not used again.
  std::unique_ptr<EpochReader> reader = std::move(reader_);
  if (!reader) {
    const auto again = static_cast<std::uint64_t>(taken_ / rows_);
    const LoaderParts parts{&set_, &tensors_, &layout_, rows_};
    const OrderState at{.epoch = epoch_ + (again << 32), .rows_done = taken_ % rows_, .seed = seed_, .window = window_};
    reader = std::make_unique<EpochReader>(parts, at);
  }
  const std::int64_t own = is_own ? rows : 0;
  std::optional<HostBatch> batch = reader->next({.batch_rows = rows, .first = 0, .rows = own}, stop, times);
  taken_ += rows;
  if (batch && taken_ % rows_ != 0) reader_ = std::move(reader);
  return batch;
}

}  // namespace dtrain::data
