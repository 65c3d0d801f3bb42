// The C interface to BatchLoader; see include/dtrain/parquet_loader_c.h.
#include "dtrain/parquet_loader_c.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/abi/abi_calls.h"
#include "data/loader/batch_loader.h"
#include "data/options/loader_json.h"

struct dtrain_parquet_loader {
  dtrain::data::BatchLoader loader;
};

namespace {

template <typename Call>
int loader_status(const Call& call) {
  return dtrain::data::status_of("ParquetLoader", call);
}

}  // namespace

const char* dtrain_data_error() { return dtrain::data::last_error().c_str(); }

int dtrain_parquet_loader_open(const char* options, dtrain_parquet_loader** loader) {
  return dtrain_parquet_loader_open_in(options, nullptr, loader);
}

int dtrain_parquet_loader_open_in(const char* options, const dtrain_data_allocator* allocator,
                                  dtrain_parquet_loader** loader) {
  return loader_status([&] {
    auto all = dtrain::ParquetLoaderOptions::from_environment();
    dtrain::data::set_options("ParquetLoader", options, all);
    *loader =
        new dtrain_parquet_loader{dtrain::data::BatchLoader(std::move(all), dtrain::data::allocator_of(allocator))};
    return DTRAIN_DATA_OK;
  });
}

void dtrain_parquet_loader_close(dtrain_parquet_loader* loader) { delete loader; }

size_t dtrain_parquet_loader_tensors(const dtrain_parquet_loader* loader) { return loader->loader.names().size(); }

const char* dtrain_parquet_loader_tensor_name(const dtrain_parquet_loader* loader, size_t number) {
  return loader->loader.names()[number].c_str();
}

int dtrain_parquet_loader_next(dtrain_parquet_loader* loader, int64_t timeout_ms, DLManagedTensor** tensors,
                               dtrain_batch_rows* rows) {
  return loader_status([&] { return dtrain::data::next_batch(loader->loader, timeout_ms, tensors, rows); });
}

uint64_t dtrain_parquet_loader_epoch(const dtrain_parquet_loader* loader) { return loader->loader.epoch(); }
void dtrain_parquet_loader_set_epoch(dtrain_parquet_loader* loader, uint64_t epoch) { loader->loader.set_epoch(epoch); }
int64_t dtrain_parquet_loader_rows(const dtrain_parquet_loader* loader) { return loader->loader.rows(); }
int64_t dtrain_parquet_loader_batches(const dtrain_parquet_loader* loader) { return loader->loader.batches(); }

void dtrain_parquet_loader_times(const dtrain_parquet_loader* loader, dtrain_loader_times* times) {
  *times = dtrain::data::times_of(loader->loader.times());
}

int dtrain_parquet_loader_state(const dtrain_parquet_loader* loader, char text[DTRAIN_DATA_STATE_SIZE]) {
  return loader_status([&] {
    const std::string state = loader->loader.state();
    state.copy(text, DTRAIN_DATA_STATE_SIZE - 1);
    text[std::min<std::size_t>(state.size(), DTRAIN_DATA_STATE_SIZE - 1)] = '\0';
    return DTRAIN_DATA_OK;
  });
}

int dtrain_parquet_loader_load_state(dtrain_parquet_loader* loader, const char* text) {
  return loader_status([&] {
    loader->loader.load_state(text);
    return DTRAIN_DATA_OK;
  });
}
