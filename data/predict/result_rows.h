#pragma once
// The result of a part, as a Parquet file.
#include <cstdint>
#include <memory>
#include <string>

#include "data/predict/host_predictor.h"

namespace arrow {
class Table;
}

namespace dtrain::data {

// `where`: the part, for errors. Throws DataError: a column has another number of rows than the part, or a name is
// there twice.
std::shared_ptr<arrow::Table> result_table(const std::string& where, std::int64_t rows, const arrow::Table* copied,
                                           const HostColumns& columns);
// The schema of a result, as all workers compare it.
std::string schema_bytes(const arrow::Table& table);
// Throws DataError if the schema of the first result, `first`, is another one.
void check_result_schema(const std::string& where, const arrow::Table& table, const std::string& first);
void write_result(const std::string& path, const arrow::Table& table);

}  // namespace dtrain::data
