#pragma once
// What the calls of the C interfaces have in common: their status and their last error, and batches as DLPack's
// tensors.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "data/abi/dlpack.h"
#include "data/base/host_batch.h"
#include "dtrain/data_errors.h"
#include "dtrain/errors.h"
#include "dtrain/loader_times.h"
#include "dtrain/parquet_loader_c.h"

namespace dtrain::data {

// Of this thread.
std::string& last_error();

// The status of a call that may throw, which C cannot catch. `who`: the loader's name.
template <typename Call>
int status_of(const char* who, const Call& call) {
  try {
    return call();
  } catch (const ConfigError& error) {
    last_error() = error.what();
    return DTRAIN_DATA_CONFIG_ERROR;
  } catch (const DataError& error) {
    last_error() = error.what();
    return DTRAIN_DATA_DATA_ERROR;
  } catch (const std::exception& error) {
    last_error() = std::string("dtrain: ") + who + ": " + error.what();
    return DTRAIN_DATA_OTHER_ERROR;
  }
}

// Of a caller; null: the usual one.
BlockAllocator allocator_of(const dtrain_data_allocator* allocator);

// The caller owns the tensors from now on.
void give_batch(HostBatch batch, DLManagedTensor** tensors, dtrain_batch_rows* rows);

template <typename Loader>
int next_batch(Loader& loader, std::int64_t timeout_ms, DLManagedTensor** tensors, dtrain_batch_rows* rows) {
  constexpr std::int64_t day_ms = 86'400'000;  // more milliseconds may be too many nanoseconds
  if (timeout_ms >= 0 && !loader.wait(std::chrono::milliseconds(std::min(timeout_ms, day_ms)))) {
    return DTRAIN_DATA_WAITING;
  }
  std::optional<HostBatch> batch = loader.next();
  if (!batch) return DTRAIN_DATA_END;
  give_batch(std::move(*batch), tensors, rows);
  return DTRAIN_DATA_OK;
}

inline dtrain_loader_times times_of(const LoaderTimes& all) {
  return {all.batches, all.seconds, all.waited, all.disk, all.decode, all.copy, all.ahead};
}

}  // namespace dtrain::data
