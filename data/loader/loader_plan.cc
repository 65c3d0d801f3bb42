#include "data/loader/loader_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/base/host_batch.h"
#include "data/options/refuse_option.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {

void check_ranks(const std::string& who, std::int64_t batch_size, int rank, int world_size, int prefetch) {
  if (batch_size < 1) refuse_option(who, fmt::format("batch_size is {}; it must be at least 1", batch_size));
  if (world_size < 1 || rank < 0 || rank >= world_size)
    refuse_option(who, fmt::format("rank {} of {} does not exist", rank, world_size));
  if (prefetch < 1) refuse_option(who, fmt::format("prefetch is {}; it must be at least 1", prefetch));
}

std::vector<std::string> wanted_columns(const std::string& who, const std::vector<std::string>& columns,
                                        const std::map<std::string, std::vector<std::string>>& matrices) {
  std::vector<std::string> all = columns;
  for (const auto& [name, of] : matrices) {
    if (of.empty()) refuse_option(who, fmt::format("matrices: '{}' has no columns", name));
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) {
      refuse_option(who, fmt::format("two tensors are called '{}': one of columns, one of matrices", name));
    }
    all.insert(all.end(), of.begin(), of.end());
  }
  std::set<std::string> seen;
  for (const std::string& name : all) {
    if (!seen.insert(name).second) {
      refuse_option(who, fmt::format("column '{}' is asked for twice; name it once", name));
    }
  }
  return all;
}

std::vector<TensorColumns> tensors_of(const std::string& who, const std::vector<Column>& found,
                                      const std::map<std::string, std::vector<std::string>>& matrices) {
  std::size_t in_matrices = 0;
  for (const auto& [name, of] : matrices) in_matrices += of.size();
  std::vector<TensorColumns> tensors;
  auto column = found.begin();
  for (; column != found.end() - static_cast<std::ptrdiff_t>(in_matrices); ++column) {
    tensors.push_back({column->name, {*column}, false});
    if (column->texts) tensors.back().columns.push_back(text_lengths(*column));
  }
  for (const auto& [name, of] : matrices) {
    tensors.push_back({name, {column, column + static_cast<std::ptrdiff_t>(of.size())}, true});
    column += static_cast<std::ptrdiff_t>(of.size());
    const Column& first = tensors.back().columns.front();
    for (const Column& other : tensors.back().columns) {
      if (other.list_size != 0 || other.ragged) {
        refuse_option(who, fmt::format("matrices: column '{}' of '{}' has lists or strings; name it in columns",
                                       other.name, name));
      }
      if (other.type != first.type || other.time != first.time) {
        refuse_option(who, fmt::format("matrices: the columns '{}' and '{}' of '{}' have two types", first.name,
                                       other.name, name));
      }
    }
  }
  std::set<std::string> seen;
  for (const std::string& name : tensor_names(tensors)) {
    if (!seen.insert(name).second) {
      refuse_option(who, fmt::format("two tensors are called '{}': one has the offsets of a column of strings "
                                     "or lists; leave one of the columns out, or write it with another name",
                                     name));
    }
  }
  return tensors;
}

namespace {

bool is_value_of(ElementType type, double value) {
  const auto is_whole_in = [&](double low, double end) {
    return value >= low && value < end && static_cast<double>(static_cast<std::int64_t>(value)) == value;
  };
  switch (type) {
    case ElementType::boolean:
      return is_whole_in(0, 2);
    case ElementType::uint8:
      return is_whole_in(0, 256);
    case ElementType::int8:
      return is_whole_in(-128, 128);
    case ElementType::int16:
      return is_whole_in(-0x1p15, 0x1p15);
    case ElementType::int32:
      return is_whole_in(-0x1p31, 0x1p31);
    case ElementType::int64:
      return is_whole_in(-0x1p63, 0x1p63);
    default:
      return true;
  }
}

}  // namespace

void check_fill(const std::string& who, const std::vector<Column>& found, const std::map<std::string, double>& fill) {
  for (const auto& entry : fill) {
    const auto& [name, value] = entry;
    const auto column =
        std::find_if(found.begin(), found.end(), [&](const Column& one) { return one.name == entry.first; });
    if (column == found.end()) {
      refuse_option(who, fmt::format("fill: there is no column '{}' among those that are read", name));
    }
    if (!is_value_of(column->type, value)) {
      refuse_option(who, fmt::format("fill: column '{}' cannot have the value {}", name, value));
    }
  }
}

std::int64_t checked_window(const std::string& who, std::int64_t window_bytes, const RowBytes& bytes, std::int64_t rows,
                            std::int64_t largest_rows, const std::string& largest) {
  const std::int64_t window = window_bytes == 0 ? RowOrder::whole_set : window_rows(window_bytes, bytes, rows);
  if (window == 0) {
    throw DataError(
        fmt::format("dtrain: {}: {} rows of {} bytes do not fit into window_size_bytes = {}; it must be {} or "
                    "more, or the files must be written with smaller row groups",
                    largest, largest_rows, bytes.waiting, window_bytes, window_bytes_min(bytes, rows)));
  }
  if ((window == RowOrder::whole_set || window >= rows) && rows > RowOrder::whole_set_max) {
    refuse_option(who, fmt::format("{} rows are too many to wait in memory at once; set "
                                   "window_size_bytes",
                                   rows));
  }
  return window;
}

}  // namespace dtrain::data
