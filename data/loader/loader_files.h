#pragma once
// The files of a loader, and what a batch of their rows consists of.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/base/host_batch.h"
#include "data/base/row_layout.h"
#include "data/flow/row_flow.h"
#include "data/order/window_plan.h"
#include "data/parquet/parquet_set.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

class LoaderFiles {
 public:
  // Takes paths, columns, matrices and fill of the options. `who`: the loader, for errors, which are ConfigErrors or
  // DataErrors.
  LoaderFiles(std::string who, const ParquetLoaderOptions& options);
  LoaderFiles(const LoaderFiles&) = delete;
  LoaderFiles& operator=(const LoaderFiles&) = delete;

  const ParquetSet& set() const { return set_; }
  const std::vector<TensorColumns>& tensors() const { return tensors_; }
  const RowLayout& layout() const { return layout_; }
  std::int64_t rows() const { return rows_; }
  // Which rows they have, and what is read of them: files with the same text give the same rows from the same bytes.
  const std::string& rows_text() const { return rows_text_; }
  // RowOrder's window, where 0 bytes are all rows, and auto_window is auto_window_bytes(). Throws ConfigError if
  // this machine has less free memory than that.
  std::int64_t window(std::int64_t bytes) const;
  // They must not outlive this.
  LoaderParts parts(BlockAllocator allocate = new_block) {
    return {&set_, &tensors_, &layout_, rows_, static_cast<std::size_t>(row_bytes_.tail), std::move(allocate)};
  }

 private:
  const std::string who_;
  ParquetSet set_;
  const std::vector<TensorColumns> tensors_;
  const RowLayout layout_;
  const std::int64_t rows_;
  const RowBytes row_bytes_;
  const std::string rows_text_;
};

}  // namespace dtrain::data
