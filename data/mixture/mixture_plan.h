#pragma once
// What a mixture's options mean. Throws ConfigError or DataError. Pure.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/base/row_layout.h"
#include "dtrain/mixture_options.h"

namespace dtrain::data {

inline constexpr const char* mixture_name = "MixtureLoader";  // in errors

// Throws ConfigError.
[[noreturn]] void refuse_mixture(const std::string& why);

MixtureLoaderOptions checked(MixtureLoaderOptions options);

// What a ParquetLoader of this source alone would have.
ParquetLoaderOptions source_options(const MixtureLoaderOptions& options, std::size_t source);

// Parts of MixtureOrder::whole_row.
std::vector<std::int64_t> parts_of(const std::vector<double>& weights);
// The weights by name, in the order of the sources.
std::vector<double> weights_of(const MixtureLoaderOptions& options, const std::map<std::string, double>& by_name);

// Which tensor of a batch of `other` each of `first`'s is. Both must have the same tensors; `first_name` and
// `other_name` are the sources'.
std::vector<std::size_t> tensors_at(const std::string& first_name, const std::vector<TensorColumns>& first,
                                    const std::string& other_name, const std::vector<TensorColumns>& other);

}  // namespace dtrain::data
