#pragma once
// ParquetLoader reads Parquet files as batches of tensors, shuffled in bounded memory.
//
//   dtrain::ParquetLoader loader({.paths = {"clicks/"},
//                                 .columns = {"label"},
//                                 .matrices = {{"x", {"f0", "f1", "f2"}}},
//                                 .batch_size = 1024,
//                                 .rank = session.rank(), .world_size = session.world_size(),
//                                 .window_size_bytes = 200'000'000});
//   while (auto batch = loader.next()) train(batch->at("x"), batch->at("label"));   // one epoch
//
// The order of an epoch's rows depends on the seed, the epoch, the files' row groups and the window, and not on the
// number of ranks. A global batch is the next batch_size * world_size rows of it, and each rank gets a contiguous part.
// All ranks have the same number of batches in an epoch. The last global batch may have fewer rows. With drop_last it
// is left out. Else all ranks get equally many of its rows, and where they cannot be divided evenly some rows are
// repeated at the end of the last ranks' parts: LoadedBatch::repeated says how many.
//
// state() is a text of at most 100 bytes. A run that goes on from it gets exactly the rows of the epoch that were left,
// with any number of ranks and any batch size.
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dtrain/data_errors.h"
#include "dtrain/errors.h"
#include "dtrain/loader_times.h"
#include "dtrain/parquet_options.h"

namespace dtrain {

struct LoadedBatch {
  std::map<std::string, torch::Tensor> tensors;
  std::int64_t rows = 0;         // of this rank
  std::int64_t repeated = 0;     // of these, at the end: rows that another place of the global batch has, too
  std::int64_t global_rows = 0;  // of all ranks, each row counted once

  const torch::Tensor& at(const std::string& name) const { return tensors.at(name); }
};

// No member is a collective. A thread reads ahead; the destructor ends it. One thread at a time may use a loader.
class ParquetLoader {
 public:
  // Reads the files' footers. Throws ConfigError if an option makes no sense, or if there is no GPU for pin_memory, and
  // DataError if a file cannot be read, if a column is missing, has another type than in the first file or one that no
  // tensor has, or if the largest row group does not fit into the window.
  explicit ParquetLoader(ParquetLoaderOptions options);
  ~ParquetLoader();
  ParquetLoader(ParquetLoader&&) noexcept;
  ParquetLoader& operator=(ParquetLoader&&) noexcept;

  // The next batch; none at the end of an epoch, and the call after that begins the next epoch. Throws DataError if a
  // file cannot be read, each time it is called.
  std::optional<LoadedBatch> next();

  // The epoch of the batch that next() gives next.
  std::uint64_t epoch() const;
  // Begin with the first batch of this epoch.
  void set_epoch(std::uint64_t epoch);
  // For a checkpoint: where this loader is, the same text on all ranks. Batches that next() has not returned are not
  // counted.
  std::string state() const;
  // Go on from there. Throws ConfigError if it is no text of state(), or one of other files, another seed or another
  // window. With auto_window the window is that of the text.
  void load_state(const std::string& state);

  // What the time went into since the loader was made. Where training waits for more than a tenth of it, the loader
  // says so on standard error, at most once a minute, with what to change.
  LoaderTimes times() const;

  std::int64_t rows() const;     // in the files
  std::int64_t batches() const;  // in an epoch

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
