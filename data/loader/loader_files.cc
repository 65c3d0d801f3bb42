#include "data/loader/loader_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>
#include <utility>

#include "data/base/store_uri.h"
#include "data/loader/loader_plan.h"
#include "data/options/refuse_option.h"
#include "dtrain/data_errors.h"
#include "strategies/kept/available_memory.h"

namespace dtrain::data {

namespace {

std::string text_of(const ParquetSet& set, const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    text += (is_store_uri(path) ? path : std::filesystem::absolute(path).string()) + '\n';
  }
  for (const Column& column : set.columns()) {
    text += fmt::format("{} {} {} {}\n", column.name, static_cast<int>(column.type), column.list_size,
                        column.fill ? fmt::to_string(*column.fill) : "-");
  }
  return text;
}

}  // namespace

LoaderFiles::LoaderFiles(std::string who, const ParquetLoaderOptions& options)
    : who_(std::move(who)),
      set_(options.paths, wanted_columns(who_, options.columns, options.matrices), options.fill),
      tensors_(tensors_of(who_, set_.columns(), options.matrices)),
      layout_(tensors_),
      rows_(std::accumulate(set_.group_rows().begin(), set_.group_rows().end(), std::int64_t{0})),
      row_bytes_(row_bytes(static_cast<std::int64_t>(layout_.bytes), static_cast<std::int64_t>(layout_.ragged.size()),
                           set_.group_rows(), set_.group_tails())),
      rows_text_(text_of(set_, options.paths)) {
  check_fill(who_, set_.columns(), options.fill);
  if (rows_ == 0) throw DataError(fmt::format("dtrain: {}: there are no rows", options.paths[0]));
}

std::int64_t LoaderFiles::window(std::int64_t bytes) const {
  if (bytes == ParquetLoaderOptions::auto_window) {
    bytes = auto_window_bytes(row_bytes_, rows_);
    const std::int64_t needed = bytes_of_window(bytes, row_bytes_, rows_);
    const auto free = kept::available_memory();
    if (free && *free < static_cast<std::uint64_t>(needed)) {
      refuse_option(who_, fmt::format("auto_window: the window takes {} bytes, and {} are free here; set "
                                      "window_size_bytes to a number, on all ranks",
                                      needed, *free));
    }
  }
  const std::size_t largest = row_bytes_.largest;
  return checked_window(who_, bytes, row_bytes_, rows_, set_.group_rows()[largest], set_.name_of(largest));
}

}  // namespace dtrain::data
