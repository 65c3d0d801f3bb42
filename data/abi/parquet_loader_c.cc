// The C interface to BatchLoader; see include/dtrain/parquet_loader_c.h.
#include "dtrain/parquet_loader_c.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/abi/dlpack.h"
#include "data/loader/batch_loader.h"
#include "data/options/loader_json.h"
#include "dtrain/data_errors.h"
#include "dtrain/errors.h"

struct dtrain_parquet_loader {
  dtrain::data::BatchLoader loader;
};

namespace dtrain::data {
namespace {

thread_local std::string last_error;

// The status of a call that may throw, which C cannot catch.
template <typename Call>
int status_of(const Call& call) {
  try {
    return call();
  } catch (const ConfigError& error) {
    last_error = error.what();
    return DTRAIN_DATA_CONFIG_ERROR;
  } catch (const DataError& error) {
    last_error = error.what();
    return DTRAIN_DATA_DATA_ERROR;
  } catch (const std::exception& error) {
    last_error = std::string("dtrain: ParquetLoader: ") + error.what();
    return DTRAIN_DATA_OTHER_ERROR;
  }
}

std::uint8_t code_of(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return dlpack_bool;
    case ElementType::uint8:
      return dlpack_uint;
    case ElementType::float16:
    case ElementType::float32:
    case ElementType::float64:
      return dlpack_float;
    default:
      return dlpack_int;
  }
}

// A tensor that owns what it consists of.
struct OwnedTensor {
  HostTensor host;
  DLManagedTensor managed;
};

std::unique_ptr<OwnedTensor> owned_tensor(HostTensor host) {
  auto owned = std::make_unique<OwnedTensor>(OwnedTensor{std::move(host), {}});
  auto& tensor = owned->managed.tensor;
  tensor.data = owned->host.values.get();
  tensor.device = {dlpack_cpu, 0};
  tensor.dimensions = static_cast<std::int32_t>(owned->host.shape.size());
  tensor.element = {code_of(owned->host.type), static_cast<std::uint8_t>(8 * element_bytes(owned->host.type)), 1};
  tensor.shape = owned->host.shape.data();
  owned->managed.context = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) { delete static_cast<OwnedTensor*>(self->context); };
  return owned;
}

int next(BatchLoader& loader, std::int64_t timeout_ms, DLManagedTensor** tensors, dtrain_batch_rows* rows) {
  constexpr std::int64_t day_ms = 86'400'000;  // more milliseconds may be too many nanoseconds
  if (timeout_ms >= 0 && !loader.wait(std::chrono::milliseconds(std::min(timeout_ms, day_ms)))) {
    return DTRAIN_DATA_WAITING;
  }
  std::optional<HostBatch> batch = loader.next();
  if (!batch) return DTRAIN_DATA_END;
  *rows = {batch->rows, batch->repeated, batch->global_rows};
  std::vector<std::unique_ptr<OwnedTensor>> owned;
  for (HostTensor& host : batch->tensors) owned.push_back(owned_tensor(std::move(host)));
  for (auto& tensor : owned) *tensors++ = &tensor.release()->managed;
  return DTRAIN_DATA_OK;
}

}  // namespace
}  // namespace dtrain::data

using dtrain::data::status_of;

const char* dtrain_data_error() { return dtrain::data::last_error.c_str(); }

int dtrain_parquet_loader_open(const char* options, dtrain_parquet_loader** loader) {
  return status_of([&] {
    auto all = dtrain::ParquetLoaderOptions::from_environment();
    dtrain::data::set_options("ParquetLoader", options, all);
    *loader = new dtrain_parquet_loader{dtrain::data::BatchLoader(std::move(all))};
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
  return status_of([&] { return dtrain::data::next(loader->loader, timeout_ms, tensors, rows); });
}

uint64_t dtrain_parquet_loader_epoch(const dtrain_parquet_loader* loader) { return loader->loader.epoch(); }
void dtrain_parquet_loader_set_epoch(dtrain_parquet_loader* loader, uint64_t epoch) { loader->loader.set_epoch(epoch); }
int64_t dtrain_parquet_loader_rows(const dtrain_parquet_loader* loader) { return loader->loader.rows(); }
int64_t dtrain_parquet_loader_batches(const dtrain_parquet_loader* loader) { return loader->loader.batches(); }

void dtrain_parquet_loader_times(const dtrain_parquet_loader* loader, dtrain_loader_times* times) {
  const dtrain::LoaderTimes& all = loader->loader.times();
  *times = {all.batches, all.seconds, all.waited, all.disk, all.decode, all.copy, all.ahead};
}

int dtrain_parquet_loader_state(const dtrain_parquet_loader* loader, char text[DTRAIN_DATA_STATE_SIZE]) {
  return status_of([&] {
    const std::string state = loader->loader.state();
    state.copy(text, DTRAIN_DATA_STATE_SIZE - 1);
    text[std::min<std::size_t>(state.size(), DTRAIN_DATA_STATE_SIZE - 1)] = '\0';
    return DTRAIN_DATA_OK;
  });
}

int dtrain_parquet_loader_load_state(dtrain_parquet_loader* loader, const char* text) {
  return status_of([&] {
    loader->loader.load_state(text);
    return DTRAIN_DATA_OK;
  });
}
