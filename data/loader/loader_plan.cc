#include "data/loader/loader_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/order/window_plan.h"
#include "dtrain/data_errors.h"
#include "dtrain/errors.h"

namespace dtrain::data {

std::vector<std::string> wanted_columns(const std::vector<std::string>& columns,
                                        const std::map<std::string, std::vector<std::string>>& matrices) {
  std::vector<std::string> all = columns;
  for (const auto& [name, of] : matrices) {
    if (of.empty()) throw ConfigError(fmt::format("dtrain: ParquetLoader: matrices: '{}' has no columns", name));
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) {
      throw ConfigError(
          fmt::format("dtrain: ParquetLoader: two tensors are called '{}': one of columns, one of matrices", name));
    }
    all.insert(all.end(), of.begin(), of.end());
  }
  std::set<std::string> seen;
  for (const std::string& name : all) {
    if (!seen.insert(name).second) {
      throw ConfigError(fmt::format("dtrain: ParquetLoader: column '{}' is asked for twice; name it once", name));
    }
  }
  return all;
}

std::vector<TensorColumns> tensors_of(const std::vector<Column>& found,
                                      const std::map<std::string, std::vector<std::string>>& matrices) {
  std::size_t in_matrices = 0;
  for (const auto& [name, of] : matrices) in_matrices += of.size();
  std::vector<TensorColumns> tensors;
  auto column = found.begin();
  for (; column != found.end() - static_cast<std::ptrdiff_t>(in_matrices); ++column) {
    tensors.push_back({column->name, {*column}, false});
  }
  for (const auto& [name, of] : matrices) {
    tensors.push_back({name, {column, column + static_cast<std::ptrdiff_t>(of.size())}, true});
    column += static_cast<std::ptrdiff_t>(of.size());
    const Column& first = tensors.back().columns.front();
    for (const Column& other : tensors.back().columns) {
      if (other.list_size != 0) {
        throw ConfigError(fmt::format(
            "dtrain: ParquetLoader: matrices: column '{}' of '{}' has lists; name it in columns", other.name, name));
      }
      if (other.type != first.type) {
        throw ConfigError(
            fmt::format("dtrain: ParquetLoader: matrices: the columns '{}' and '{}' of '{}' have two types", first.name,
                        other.name, name));
      }
    }
  }
  return tensors;
}

std::int64_t checked_window(std::int64_t window_bytes, std::size_t row_bytes,
                            const std::vector<std::int64_t>& group_rows, const std::string& largest) {
  const std::int64_t rows = std::accumulate(group_rows.begin(), group_rows.end(), std::int64_t{0});
  const std::int64_t largest_rows = *std::max_element(group_rows.begin(), group_rows.end());
  const auto bytes = static_cast<std::int64_t>(row_bytes);
  const std::int64_t window =
      window_bytes == 0 ? RowOrder::whole_set : window_rows(window_bytes, bytes, largest_rows, rows);
  if (window == 0) {
    throw DataError(
        fmt::format("dtrain: {}: {} rows of {} bytes do not fit into window_size_bytes = {}; it must be {} or "
                    "more, or the files must be written with smaller row groups",
                    largest, largest_rows, row_bytes, window_bytes, window_bytes_min(bytes, largest_rows, rows)));
  }
  if ((window == RowOrder::whole_set || window >= rows) && rows > RowOrder::whole_set_max) {
    throw ConfigError(
        fmt::format("dtrain: ParquetLoader: {} rows are too many to wait in memory at once; set "
                    "window_size_bytes",
                    rows));
  }
  return window;
}

}  // namespace dtrain::data
