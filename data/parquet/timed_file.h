#pragma once
// A file that counts how long reading its bytes takes.
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "data/parquet/seconds_since.h"

namespace dtrain::data {

class TimedFile : public arrow::io::RandomAccessFile {
 public:
  // `seconds` must outlive the file, and is added to.
  TimedFile(std::shared_ptr<arrow::io::RandomAccessFile> file, double* seconds)
      : file_(std::move(file)), seconds_(seconds) {}

 private:
  template <typename Read>
  auto timed(const Read& read) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = read();
    *seconds_ += seconds_since(begin);
    return result;
  }

 public:
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override {
    return timed([&] { return file_->Read(bytes, out); });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override {
    return timed([&] { return file_->Read(bytes); });
  }
  arrow::Result<std::int64_t> ReadAt(std::int64_t at, std::int64_t bytes, void* out) override {
    return timed([&] { return file_->ReadAt(at, bytes, out); });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t at, std::int64_t bytes) override {
    return timed([&] { return file_->ReadAt(at, bytes); });
  }

  arrow::Status Close() override { return file_->Close(); }
  bool closed() const override { return file_->closed(); }
  arrow::Status Seek(std::int64_t at) override { return file_->Seek(at); }
  arrow::Result<std::int64_t> Tell() const override { return file_->Tell(); }
  arrow::Result<std::int64_t> GetSize() override { return file_->GetSize(); }

 private:
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  double* seconds_;
};

}  // namespace dtrain::data
