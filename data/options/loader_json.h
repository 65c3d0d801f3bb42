#pragma once
// Options of a ParquetLoader as JSON: all of them, as the C interface takes them, and those of Ludwig's loader section,
// as DTRAIN_LOADER has them. Throws ConfigError, with one line that begins with `where`. Pure.
#include <string>

#include "dtrain/parquet_options.h"

namespace dtrain::data {

// An object whose keys are the names of ParquetLoaderOptions' members. window_size_bytes is a number, null for all rows
// at once, or "auto". What it does not name stays as it is in `options`.
void set_options(const std::string& where, const std::string& text, ParquetLoaderOptions& options);

// An object with window_size_bytes and fully_executed, no other keys.
void set_loader_section(const std::string& where, const std::string& text, ParquetLoaderOptions& options);

}  // namespace dtrain::data
