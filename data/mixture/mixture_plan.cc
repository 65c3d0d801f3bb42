#include "data/mixture/mixture_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "data/base/host_batch.h"
#include "data/loader/loader_plan.h"
#include "data/options/common_options.h"
#include "data/options/refuse_option.h"
#include "data/order/mixture_order.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {

void refuse_mixture(const std::string& why) { refuse_option(mixture_name, why); }

namespace {

std::vector<std::string> names_of(const MixtureLoaderOptions& options) {
  std::vector<std::string> names;
  for (const MixtureSource& source : options.sources) names.push_back(source.name);
  return names;
}

void check_sources(const MixtureLoaderOptions& options) {
  if (options.sources.empty()) refuse_mixture("sources is empty; name at least one, with its paths");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    const MixtureSource& source = options.sources[i];
    if (source.name.empty()) refuse_mixture(fmt::format("source {} has no name", i));
    if (!seen.insert(source.name).second) refuse_mixture(fmt::format("two sources are called '{}'", source.name));
    if (source.paths.empty()) {
      refuse_mixture(
          fmt::format("source '{}' has no paths; name files, or folders with files that end in .parquet", source.name));
    }
    const std::int64_t window = source.window_size_bytes.value_or(options.window_size_bytes);
    if (window < ParquetLoaderOptions::auto_window) {
      refuse_mixture(fmt::format(
          "window_size_bytes of source '{}' is {}; it must be a number of bytes, 0 for all rows, or auto_window",
          source.name, window));
    }
  }
}

std::string type_text(const TensorColumns& tensor) {
  const Column& column = tensor.columns[0];
  if (column.texts) return "lists of strings";
  std::string text = column.element_name();
  if (column.ragged) return text + " in rows of any length";
  text += " [rows";
  if (tensor.matrix) text += fmt::format(", {}", tensor.columns.size());
  if (column.list_size != 0) text += fmt::format(", {}", column.list_size);
  return text + "]";
}

}  // namespace

MixtureLoaderOptions checked(MixtureLoaderOptions options) {
  check_sources(options);
  if (options.epoch_ends == MixtureEnd::unset) {
    refuse_mixture(
        "epoch_ends is not set; it must be first (an epoch ends with the first source that is at its end), all (when "
        "each source has been read) or never");
  }
  check_ranks(mixture_name, options.batch_size, options.rank, options.world_size, options.prefetch);
  return options;
}

ParquetLoaderOptions source_options(const MixtureLoaderOptions& options, std::size_t source) {
  const MixtureSource& of = options.sources[source];
  ParquetLoaderOptions alone{.paths = of.paths};
  copy_common_options(options, alone);
  alone.seed = of.seed.value_or(options.seed + source);
  alone.window_size_bytes = of.window_size_bytes.value_or(options.window_size_bytes);
  return alone;
}

std::vector<std::int64_t> parts_of(const std::vector<double>& weights) {
  auto parts = weight_parts(weights);
  if (!parts) {
    refuse_mixture(fmt::format("the weights are {}; they must be numbers of 0 or more, and one of them more than 0",
                               fmt::join(weights, ", ")));
  }
  return std::move(*parts);
}

std::vector<double> weights_of(const MixtureLoaderOptions& options, const std::map<std::string, double>& by_name) {
  const std::vector<std::string> names = names_of(options);
  for (const auto& entry : by_name) {
    if (std::find(names.begin(), names.end(), entry.first) == names.end()) {
      refuse_mixture(
          fmt::format("set_weights: there is no source '{}'; there are {}", entry.first, fmt::join(names, ", ")));
    }
  }
  std::vector<double> weights;
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      refuse_mixture(fmt::format("set_weights: source '{}' has no weight; name all sources, with 0 for no rows", name));
    }
    weights.push_back(found->second);
  }
  return weights;
}

std::vector<std::size_t> tensors_at(const std::string& first_name, const std::vector<TensorColumns>& first,
                                    const std::string& other_name, const std::vector<TensorColumns>& other) {
  const auto refuse_pair = [&](const std::string& what) {
    throw DataError(fmt::format("dtrain: {}: {}; the sources must have the same tensors", mixture_name, what));
  };
  const auto found_in = [](const std::vector<TensorColumns>& tensors, const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const TensorColumns& one) { return one.name == name; });
  };
  for (const TensorColumns& tensor : other) {
    if (found_in(first, tensor.name) == first.end()) {
      refuse_pair(fmt::format("source '{}' has '{}', which source '{}' has not", other_name, tensor.name, first_name));
    }
  }
  const std::vector<std::string> names = tensor_names(other);
  std::vector<std::size_t> at;
  for (const TensorColumns& tensor : first) {
    const auto found = found_in(other, tensor.name);
    if (found == other.end()) {
      refuse_pair(fmt::format("source '{}' has '{}', which source '{}' has not", first_name, tensor.name, other_name));
    }
    if (type_text(*found) != type_text(tensor)) {
      refuse_pair(fmt::format("'{}' is {} in source '{}', and {} in source '{}'", tensor.name, type_text(tensor),
                              first_name, type_text(*found), other_name));
    }
    const auto place = static_cast<std::size_t>(std::find(names.begin(), names.end(), tensor.name) - names.begin());
    for (std::size_t i = 0; i < tensor.tensors(); ++i) at.push_back(place + i);
  }
  return at;
}

}  // namespace dtrain::data
