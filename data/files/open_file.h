#pragma once
// The bytes of a file of a data set.
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>

#include <memory>

#include "data/files/data_files.h"

namespace dtrain::data {

using OpenedFile = std::shared_ptr<arrow::io::RandomAccessFile>;

// Opens it for the first time, and notes an object's tag. An object's errors say what to do. `pool`: for what is read
// of a file on this machine; null: Arrow's, which takes memory when it is first used.
arrow::Result<OpenedFile> open_first(DataFile& file, arrow::MemoryPool* pool = nullptr);
// Asks a store nothing. What was opened may be read by several threads at once, and holds no descriptor if it is an
// object.
arrow::Result<OpenedFile> open_file(const DataFile& file, arrow::MemoryPool* pool = nullptr);

}  // namespace dtrain::data
