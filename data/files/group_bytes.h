#pragma once
// The bytes of a row group that lies in a store.
#include <atomic>
#include <string>
#include <vector>

#include "data/files/data_files.h"

namespace parquet {
class ParquetFileReader;
}
namespace parquet::arrow {
struct SchemaField;
}

namespace dtrain::data {

// Adds the columns of the pages that have the values of a field.
void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves);

// Asks the store for what these columns of a row group need, in few requests side by side, and waits until all is in
// memory; columns are read as usual afterwards. Of a file of this machine nothing is done. False: `stop` became true.
// Throws DataError.
bool fetch_group(const std::string& where, const DataFile& file, parquet::ParquetFileReader& reader, int group,
                 const std::vector<int>& leaves, const std::atomic<bool>& stop);

}  // namespace dtrain::data
