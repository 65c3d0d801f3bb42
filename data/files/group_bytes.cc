// Tested by test/process/data/stores_test.py.
#include "data/files/group_bytes.h"

#include <arrow/io/caching.h>
#include <arrow/util/future.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include "data/arrow/arrow_calls.h"

namespace dtrain::data {
namespace {

// Bytes that nobody needs cost less than another request, as long as they are few.
constexpr std::int64_t kHole = std::int64_t{1} << 20;
// A longer range becomes several requests side by side.
constexpr std::int64_t kRange = std::int64_t{16} << 20;
constexpr double kLookAtStopEvery = 0.1;  // seconds

}  // namespace

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) add_leaves(child, leaves);
}

bool fetch_group(const std::string& where, const DataFile& file, parquet::ParquetFileReader& reader, int group,
                 const std::vector<int>& leaves, const std::atomic<bool>& stop) {
  if (!file.is_remote()) return true;
  const auto fetched = must_all(where, [&]() -> arrow::Result<arrow::Future<>> {
    arrow::io::CacheOptions options{.hole_size_limit = kHole, .range_size_limit = kRange, .lazy = false};
    reader.PreBuffer({group}, leaves, arrow::io::default_io_context(), options);
    return reader.WhenBuffered({group}, leaves);
  });
  while (!fetched.Wait(kLookAtStopEvery))
    if (stop) return false;
  must(where, fetched.status());
  return true;
}

}  // namespace dtrain::data
