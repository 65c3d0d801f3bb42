// Tested by test/process/data/stores_test.py.
#include "data/files/store_file.h"

#include <arrow/buffer.h>
#include <arrow/result.h>
#include <arrow/util/future.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <utility>

#include "data/files/store_errors.h"

namespace dtrain::data {
namespace {

class StoreFile : public arrow::io::RandomAccessFile {
 public:
  StoreFile(std::shared_ptr<arrow::io::RandomAccessFile> below, std::string scheme)
      : below_(std::move(below)), scheme_(std::move(scheme)) {}

  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override {
    return told([&] { return below_->Read(bytes, out); });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override {
    return told([&] { return below_->Read(bytes); });
  }

  arrow::Result<std::int64_t> ReadAt(std::int64_t at, std::int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const auto got, told([&] { return below_->ReadAt(at, bytes, out); }));
    ARROW_RETURN_NOT_OK(whole(at, bytes, got));
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t at, std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto got, told([&] { return below_->ReadAt(at, bytes); }));
    ARROW_RETURN_NOT_OK(whole(at, bytes, got->size()));
    return got;
  }

  arrow::Result<std::shared_ptr<const arrow::KeyValueMetadata>> ReadMetadata() override {
    return told([&] { return below_->ReadMetadata(); });
  }
  arrow::Status Close() override { return below_->Close(); }
  bool closed() const override { return below_->closed(); }
  arrow::Status Seek(std::int64_t at) override { return below_->Seek(at); }
  arrow::Result<std::int64_t> Tell() const override { return below_->Tell(); }
  arrow::Result<std::int64_t> GetSize() override {
    return told([&] { return below_->GetSize(); });
  }

 private:
  template <typename Ask>
  auto told(const Ask& ask) const -> decltype(ask()) {
    auto result = caught(ask);
    if (result.ok()) return result;
    return arrow::Status::IOError(store_error_text(scheme_, result.status().message()));
  }

  arrow::Status whole(std::int64_t at, std::int64_t bytes, std::int64_t got) const {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t size, below_->GetSize());
    const std::int64_t there = std::clamp<std::int64_t>(size - at, 0, bytes);
    if (got == there) return arrow::Status::OK();
    return arrow::Status::IOError("the store has sent ", got, " of ", there, " bytes from byte ", at,
                                  " on; the connection broke, or the object is shorter than it was");
  }

  std::shared_ptr<arrow::io::RandomAccessFile> below_;
  std::string scheme_;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> store_file(std::shared_ptr<arrow::io::RandomAccessFile> below,
                                                        std::string scheme) {
  return std::make_shared<StoreFile>(std::move(below), std::move(scheme));
}

}  // namespace dtrain::data
