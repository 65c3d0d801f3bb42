#pragma once
// What a loader's options mean for the files that there are: which columns become which tensor, and the window. Throws
// ConfigError or DataError; `who` is the loader's name in them. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/base/row_layout.h"
#include "data/order/window_plan.h"

namespace dtrain::data {

// Of a loader's options, what each of them has.
void check_ranks(const std::string& who, std::int64_t batch_size, int rank, int world_size, int prefetch);

// Which columns are read: those of `columns`, then those of each matrix. Empty: all of the files. A column is in one
// tensor.
std::vector<std::string> wanted_columns(const std::string& who, const std::vector<std::string>& columns,
                                        const std::map<std::string, std::vector<std::string>>& matrices);

// The tensors of the columns that wanted_columns() named, as the files have them. The columns of a matrix have one
// type.
std::vector<TensorColumns> tensors_of(const std::string& who, const std::vector<Column>& found,
                                      const std::map<std::string, std::vector<std::string>>& matrices);

// Each name of `fill` must be that of a column that is found, and its number a value of that column's type.
void check_fill(const std::string& who, const std::vector<Column>& found, const std::map<std::string, double>& fill);

// RowOrder's window for `window_bytes`, where 0 is all rows. `largest`: the name of the largest row group, and how many
// rows it has.
std::int64_t checked_window(const std::string& who, std::int64_t window_bytes, const RowBytes& bytes, std::int64_t rows,
                            std::int64_t largest_rows, const std::string& largest);

}  // namespace dtrain::data
