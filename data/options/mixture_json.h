#pragma once
// Options of a MixtureLoader as JSON, as the C interface takes them. Throws ConfigError, with one line that begins with
// `where`. Pure.
#include <string>

#include "dtrain/mixture_options.h"

namespace dtrain::data {

// An object whose keys are the names of MixtureLoaderOptions' members. sources is an array of objects with the names of
// MixtureSource's, epoch_ends is "first", "all" or "never", and window_size_bytes is as set_options() has it for a
// ParquetLoader. What it does not name stays as it is in `options`.
void set_options(const std::string& where, const std::string& text, MixtureLoaderOptions& options);

}  // namespace dtrain::data
