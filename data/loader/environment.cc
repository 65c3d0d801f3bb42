// The options of a loader and of a mixture that a job's configuration has set.
#include <cstdlib>

#include "data/options/loader_json.h"
#include "dtrain/mixture_options.h"
#include "dtrain/parquet_options.h"

namespace dtrain {

ParquetLoaderOptions ParquetLoaderOptions::from_environment() {
  ParquetLoaderOptions options;
  const char* dataset = std::getenv("DTRAIN_DATASET");
  if (dataset != nullptr && *dataset != '\0') options.paths = {dataset};
  const char* loader = std::getenv("DTRAIN_LOADER");
  if (loader != nullptr && *loader != '\0') data::set_loader_section("DTRAIN_LOADER", loader, options);
  return options;
}

MixtureLoaderOptions MixtureLoaderOptions::from_environment() {
  const auto one = ParquetLoaderOptions::from_environment();
  return {.window_size_bytes = one.window_size_bytes, .fully_executed = one.fully_executed};
}

}  // namespace dtrain
