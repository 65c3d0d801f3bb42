#pragma once
// MixtureLoader reads several data sets as one: each batch has rows of all of them, by weights that may change.
//
//   dtrain::MixtureLoader loader({.sources = {{.name = "web", .paths = {"web/"}, .weight = 0.7},
//                                             {.name = "books", .paths = {"books/"}, .weight = 0.3}},
//                                 .epoch_ends = dtrain::MixtureEnd::all,
//                                 .columns = {"tokens"},
//                                 .batch_size = 32,
//                                 .rank = session.rank(), .world_size = session.world_size(),
//                                 .window_size_bytes = 200'000'000});
//   while (auto batch = loader.next()) train(batch->at("tokens"));
//   loader.set_weights({{"web", 0.5}, {"books", 0.5}});
//
// The rows of the mixture are one sequence. Each source's rows come in the order that a ParquetLoader gives them, and
// which source a row comes from depends on the seed, the epoch, the weights, and when they changed. While the weights
// stay, each source has at every row of the epoch less than one row more or less than its part. Global batches, their
// division among the ranks, drop_last and repeated rows are those of ParquetLoader (parquet_loader.h). So the number of
// ranks does not change the sequence, and all ranks have the same number of batches.
//
// A batch has one tensor more than a ParquetLoader's: "mixture.source", int64 [rows], with the number of each row's
// source in the order of the options.
//
// Each source has a window of its own, so the windows of all take memory.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/mixture_options.h"
#include "dtrain/parquet_loader.h"

namespace dtrain {

struct MixtureSourceInfo {
  std::string name;
  double weight = 0;       // all together are 1
  std::int64_t rows = 0;   // in its files
  std::int64_t taken = 0;  // rows in this epoch of the mixture: more than `rows` if they have come again
};

// No member is a collective. A thread reads ahead; the destructor ends it. One thread at a time may use a loader.
class MixtureLoader {
 public:
  // Reads the files' footers. Throws as ParquetLoader does; DataError, too, if two sources have different tensors.
  explicit MixtureLoader(MixtureLoaderOptions options);
  ~MixtureLoader();
  MixtureLoader(MixtureLoader&&) noexcept;
  MixtureLoader& operator=(MixtureLoader&&) noexcept;

  // The next batch; none at the end of an epoch, and the call after that begins the next epoch. Throws DataError if a
  // file cannot be read, each time it is called.
  std::optional<LoadedBatch> next();

  // From the next batch on. Names every source, and all ranks call it between the same two batches with the same
  // weights: if they do not, their batches are of different mixtures from there on, so that some rows come on two ranks
  // and some on none, and epochs may have different numbers of batches. state() is then not the same on all ranks. What
  // has been read ahead is read again. Throws ConfigError.
  void set_weights(const std::map<std::string, double>& weights);
  std::vector<MixtureSourceInfo> sources() const;

  // The epoch of the batch that next() gives next.
  std::uint64_t epoch() const;
  // Begin with the first batch of this epoch, which is less than 2^32. The weights stay.
  void set_epoch(std::uint64_t epoch);
  // For a checkpoint: where this loader is and its weights, the same text on all ranks. It has at most 55 bytes, and 20
  // for each source (35 if the weights have changed in this epoch), with fewer than a trillion rows.
  std::string state() const;
  // Go on from there, with the weights of the text. Throws ConfigError if it is no text of state(), or one of other
  // sources, another seed or another window.
  void load_state(const std::string& state);

  // As ParquetLoader's.
  LoaderTimes times() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
