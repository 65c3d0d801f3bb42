#pragma once
// The input: files of one format and one schema, as units that can be read one by one, in any order, by many threads.
//
//   Parquet   a row group
//   IPC       a record batch
//   CSV, JSON some megabytes of lines
#include <arrow/array.h>
#include <arrow/type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/recipe/recipe.h"
#include "data/source/input_files.h"

namespace dtrain::data {

using Arrays = std::vector<std::shared_ptr<arrow::Array>>;

struct Unit {
  std::size_t file = 0;
  std::int64_t begin = 0, end = 0;  // bytes of a text file; of others begin is the number of the row group or batch
  std::int64_t bytes = 0;           // decoded, about
  std::int64_t rows = 0;            // 0: only who reads it knows
};

class Source {
 public:
  virtual ~Source() = default;
  const arrow::Schema& schema() const { return *schema_; }
  const std::vector<Unit>& units() const { return units_; }
  std::int64_t bytes() const;

  // These columns of a unit, an array each. Throws DataError.
  Arrays read(std::size_t unit, const std::vector<int>& columns) const;
  // "FILE, row 17" for row number `row` of the unit, both from 0; rows of a file are counted from 1.
  virtual std::string where(std::size_t unit, std::int64_t row) const = 0;

 protected:
  virtual Arrays read_unit(std::size_t unit, const std::vector<int>& columns) const = 0;
  virtual const DataFile& file_of(std::size_t unit) const = 0;

  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Unit> units_;
};

// Looks at each file. Throws DataError: a file cannot be read, is empty, or has another schema than the first one.
// `columns`: others in text files are left out, whatever is in them. None: all count.
std::unique_ptr<Source> open_source(const Recipe& recipe, const std::vector<std::string>& columns = {});

std::unique_ptr<Source> open_parquet(std::vector<DataFile> files);
std::unique_ptr<Source> open_ipc(std::vector<DataFile> files);
// `types`: of columns, beside those that are found in the text. `columns`: as above.
std::unique_ptr<Source> open_text(std::vector<DataFile> files, InputFormat format,
                                  const std::vector<std::pair<std::string, ColumnType>>& types,
                                  const std::vector<std::string>& columns);

// Throws DataError if the schema of `file` is not that of `first`.
void check_schema(const std::string& first, const arrow::Schema& wanted, const std::string& file,
                  const arrow::Schema& found);

std::vector<SourceColumn> source_columns(const arrow::Schema& schema);
// None for ColumnType::other.
std::shared_ptr<arrow::DataType> arrow_type(ColumnType type);
// What values of the type become when they are read: dictionaries are for files, not for rows.
std::shared_ptr<arrow::DataType> plain_type(const std::shared_ptr<arrow::DataType>& type);
// One array of the plain type.
std::shared_ptr<arrow::Array> plain_array(const std::string& where, const arrow::ArrayVector& chunks,
                                          const std::shared_ptr<arrow::DataType>& type);

}  // namespace dtrain::data
