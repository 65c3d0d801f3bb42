#pragma once
// An object of a store as a file.
#include <arrow/io/interfaces.h>
#include <arrow/status.h>

#include <exception>
#include <memory>
#include <string>

namespace dtrain::data {

// What Arrow answers to `ask`. Azure's library throws what Arrow lets pass, as when an answer is no XML.
template <typename Ask>
auto caught(const Ask& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const std::exception& error) {
    return arrow::Status::IOError(error.what());
  }
}

// `below` is the file of the store's file system, `scheme` the store's. Its errors say what to do, and a read that the
// object's length allows has all bytes or is an error.
std::shared_ptr<arrow::io::RandomAccessFile> store_file(std::shared_ptr<arrow::io::RandomAccessFile> below,
                                                        std::string scheme);

}  // namespace dtrain::data
