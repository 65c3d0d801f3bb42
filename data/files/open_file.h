#pragma once
// The bytes of a file of a data set.
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>

#include "data/files/data_files.h"

namespace dtrain::data {

using OpenedFile = std::shared_ptr<arrow::io::RandomAccessFile>;

// Opens it for the first time, and notes an object's tag. An object's errors say what to do.
arrow::Result<OpenedFile> open_first(DataFile& file);
// Asks a store nothing. What was opened may be read by several threads at once, and holds no descriptor if it is an
// object.
arrow::Result<OpenedFile> open_file(const DataFile& file);

}  // namespace dtrain::data
