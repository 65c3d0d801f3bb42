#pragma once
// One source of a mixture: its files, and the order of their rows.
#include <cstdint>
#include <string>

#include "data/loader/loader_files.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

class SourceFiles {
 public:
  // Takes the files, the columns, the window and the seed of the options. Throws ConfigError or DataError.
  SourceFiles(const ParquetLoaderOptions& options, std::string name);

  const std::string& name() const { return name_; }
  LoaderFiles& files() { return files_; }
  const std::vector<TensorColumns>& tensors() const { return files_.tensors(); }
  const RowLayout& layout() const { return files_.layout(); }
  std::int64_t rows() const { return files_.rows(); }
  std::uint64_t seed() const { return seed_; }
  std::int64_t window() const { return window_; }  // RowOrder's
  // Of the files, and of the order of their rows.
  std::uint64_t files_digest() const;
  std::uint64_t order_digest() const;

 private:
  const std::string name_;
  LoaderFiles files_;
  const std::uint64_t seed_;
  const std::int64_t window_;
};

}  // namespace dtrain::data
