#pragma once
// An object of a store as a file.
#include <arrow/io/interfaces.h>

#include <memory>
#include <string>

namespace dtrain::data {

// `below` is the file of the store's file system, `scheme` the store's. Its errors say what to do, and a read that the
// object's length allows has all bytes or is an error.
std::shared_ptr<arrow::io::RandomAccessFile> store_file(std::shared_ptr<arrow::io::RandomAccessFile> below,
                                                        std::string scheme);

}  // namespace dtrain::data
