#include "data/loader/loader_files.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "data/loader/loader_plan.h"
#include "data/options/refuse_option.h"
#include "dtrain/data_errors.h"
#include "strategies/kept/available_memory.h"

namespace dtrain::data {

LoaderFiles::LoaderFiles(std::string who, const ParquetLoaderOptions& options)
    : who_(std::move(who)),
      set_(options.paths, wanted_columns(who_, options.columns, options.matrices), options.fill),
      tensors_(tensors_of(who_, set_.columns(), options.matrices)),
      layout_(tensors_),
      rows_(std::accumulate(set_.group_rows().begin(), set_.group_rows().end(), std::int64_t{0})) {
  check_fill(who_, set_.columns(), options.fill);
  if (rows_ == 0) throw DataError(fmt::format("dtrain: {}: there are no rows", options.paths[0]));
}

std::int64_t LoaderFiles::window(std::int64_t bytes) const {
  const auto ragged = static_cast<std::int64_t>(layout_.ragged.size());
  const RowBytes each =
      row_bytes(static_cast<std::int64_t>(layout_.bytes), ragged, set_.group_rows(), set_.group_tails());
  if (bytes == ParquetLoaderOptions::auto_window) {
    bytes = auto_window_bytes(each, rows_);
    const std::int64_t needed = bytes_of_window(bytes, each, rows_);
    const auto free = kept::available_memory();
    if (free && *free < static_cast<std::uint64_t>(needed)) {
      refuse_option(who_, fmt::format("auto_window: the window takes {} bytes, and {} are free here; set "
                                      "window_size_bytes to a number, on all ranks",
                                      needed, *free));
    }
  }
  return checked_window(who_, bytes, each, rows_, set_.group_rows()[each.largest], set_.name_of(each.largest));
}

}  // namespace dtrain::data
