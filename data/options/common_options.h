#pragma once
// The options that ParquetLoaderOptions and MixtureLoaderOptions have in common.

namespace dtrain::data {

template <typename From, typename To>
void copy_common_options(const From& from, To& to) {
  to.columns = from.columns;
  to.matrices = from.matrices;
  to.fill = from.fill;
  to.batch_size = from.batch_size;
  to.rank = from.rank;
  to.world_size = from.world_size;
  to.shuffle = from.shuffle;
  to.seed = from.seed;
  to.window_size_bytes = from.window_size_bytes;
  to.fully_executed = from.fully_executed;
  to.one_reader = from.one_reader;
  to.drop_last = from.drop_last;
  to.prefetch = from.prefetch;
  to.pin_memory = from.pin_memory;
}

}  // namespace dtrain::data
