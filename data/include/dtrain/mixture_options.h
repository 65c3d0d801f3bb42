#pragma once
// What a MixtureLoader reads, and how. See mixture_loader.h.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/parquet_options.h"

namespace dtrain {

struct MixtureSource {
  std::string name = {};                // for set_weights(), and for errors
  std::vector<std::string> paths = {};  // ParquetLoaderOptions'
  // Its part of the rows, beside the weights of the others: with 3 and 1 three quarters. 0: no rows. Only the ratios
  // count, and they are rounded to 2^-32.
  double weight = 1;
  std::optional<std::int64_t> window_size_bytes = {};  // none: the mixture's. Each source has a window of its own
  std::optional<std::uint64_t> seed = {};              // of its order; none: the mixture's plus the source's number
};

// When an epoch of a mixture is over. All sources then begin anew, in another order.
enum class MixtureEnd {
  unset,  // an error: there is no choice that fits all
  first,  // before a row is needed of a source that has had an epoch: no row comes twice
  all,    // when each source with a weight has had an epoch. The others go on with their next one until then
  never   // each source goes on with its next epoch for ever
};

struct MixtureLoaderOptions {
  std::vector<MixtureSource> sources = {};  // the tensors of all have the same names, types and sizes
  MixtureEnd epoch_ends = MixtureEnd::unset;

  // These are ParquetLoaderOptions', for all sources.
  std::vector<std::string> columns = {};
  std::map<std::string, std::vector<std::string>> matrices = {};
  std::map<std::string, double> fill = {};
  std::int64_t batch_size = 0;
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t window_size_bytes = 0;  // of each source
  bool fully_executed = false;
  bool one_reader = true;  // of each source
  bool drop_last = false;
  int prefetch = 4;
  PinMemory pin_memory = PinMemory::no;

  // window_size_bytes and fully_executed from DTRAIN_LOADER, as ParquetLoaderOptions::from_environment() has them.
  static MixtureLoaderOptions from_environment();
};

}  // namespace dtrain
