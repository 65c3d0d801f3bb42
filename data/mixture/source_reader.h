#pragma once
// One source of a mixture: its files and their order, and its rows one after the other, epoch after epoch.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/flow/epoch_reader.h"
#include "data/loader/loader_files.h"
#include "dtrain/loader_times.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

class SourceReader {
 public:
  // Takes the files, the columns, the window and the seed of the options. Throws ConfigError or DataError.
  SourceReader(const ParquetLoaderOptions& options, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<TensorColumns>& tensors() const { return files_.tensors(); }
  const RowLayout& layout() const { return files_.layout(); }
  std::int64_t rows() const { return files_.rows(); }
  // Of the files, and of the order of their rows.
  std::uint64_t files_digest() const;
  std::uint64_t order_digest() const;

  // The other members are for the thread that reads.
  void read_through(const std::atomic<bool>& stop) const;
  // The mixture's epoch begins with epoch `epoch` of the source. `taken` of its rows have been taken.
  void go_to(std::uint64_t epoch, std::int64_t taken);
  // The next `count` rows, which do not go beyond left_of_epoch(); with `is_own` false they are only passed. Nothing if
  // `stop` became true.
  std::optional<HostBatch> next(std::int64_t count, bool is_own, const std::atomic<bool>& stop, LoaderTimes& times);
  std::int64_t left_of_epoch() const { return rows() - taken_ % rows(); }

 private:
  const std::string name_;
  LoaderFiles files_;
  const std::uint64_t seed_;
  const std::int64_t window_;  // RowOrder's
  std::uint64_t epoch_ = 0;    // of the mixture
  std::int64_t taken_ = 0;
  std::unique_ptr<EpochReader> reader_;  // none: no row of the source's epoch has been needed
};

}  // namespace dtrain::data
