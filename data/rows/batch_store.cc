#include "data/rows/batch_store.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/byte_size.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"

namespace dtrain::data {
namespace {

// So that values are read to where vectors may be.
constexpr std::int64_t kAlignment = 64;

std::int64_t padded(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

arrow::ipc::IpcWriteOptions write_options() {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  return options;
}

int open_without_name(const std::filesystem::path& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = folder / ".rows-XXXXXX";  // NFS, Lustre: they cannot do it in one call
  fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(path.c_str());
  return fd;
}

}  // namespace

BatchStore::BatchStore(std::filesystem::path folder, std::int64_t memory_bytes)
    : folder_(std::move(folder)), left_(memory_bytes) {}

BatchStore::BatchStore(std::filesystem::path folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)), left_(-1) {}

BatchStore::~BatchStore() {
  if (fd_ >= 0) ::close(fd_);
}

// Two threads may both make one; the second of them takes the first one's.
int BatchStore::file() {
  if (const int there = fd_; there >= 0) return there;
  constexpr int kNamed = O_RDWR | O_CREAT | O_CLOEXEC;
  const int made = name_.empty() ? open_without_name(folder_) : ::open((folder_ / name_).c_str(), kNamed, 0600);
  if (made < 0) fail_at(folder_.string(), fmt::format("no file for rows that wait: {}", std::strerror(errno)));
  int none = -1;
  if (fd_.compare_exchange_strong(none, made)) return made;
  ::close(made);
  return none;
}

BatchStore::Kept BatchStore::put(std::shared_ptr<arrow::RecordBatch> rows, std::vector<std::uint32_t> ends) {
  Kept kept;
  kept.schema_ = rows->schema();
  const std::int64_t bytes = must("rows that wait", arrow::util::ReferencedBufferSize(*rows));
  if (left_.fetch_sub(bytes) >= bytes) {
    kept.memory_bytes_ = bytes;
    kept.rows_ = std::move(rows);
    kept.ends_ = std::move(ends);
    return kept;
  }
  left_ += bytes;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    kept.pieces_.push_back(write(*rows->Slice(begin, end - begin)));
    begin = end;
  }
  return kept;
}

BatchStore::Kept::InFile BatchStore::write(const arrow::RecordBatch& batch) {
  const auto buffer = must("rows that wait", arrow::ipc::SerializeRecordBatch(batch, write_options()));
  const std::int64_t offset = end_.fetch_add(padded(buffer->size()));
  const int fd = file();
  for (std::int64_t done = 0; done < buffer->size();) {
    const ssize_t wrote =
        ::pwrite(fd, buffer->data() + done, static_cast<std::size_t>(buffer->size() - done), offset + done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_at(folder_.string(), fmt::format("rows that wait cannot be written: {}", std::strerror(errno)));
    done += wrote;
  }
  return {offset, buffer->size()};
}

std::shared_ptr<arrow::RecordBatch> BatchStore::get(const Kept& kept, std::size_t piece) const {
  if (kept.rows_) {
    const std::uint32_t begin = piece == 0 ? 0 : kept.ends_[piece - 1];
    return kept.rows_->Slice(begin, kept.ends_[piece] - begin);
  }
  const Kept::InFile& place = kept.pieces_[piece];
  const int fd = kept.of_other_ ? kept.of_other_->get() : fd_.load();
  const std::shared_ptr<arrow::Buffer> buffer = must("rows that wait", arrow::AllocateBuffer(place.bytes));
  for (std::int64_t done = 0; done < place.bytes;) {
    const ssize_t got =
        ::pread(fd, buffer->mutable_data() + done, static_cast<std::size_t>(place.bytes - done), place.offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_at(folder_.string(), fmt::format("rows that wait cannot be read: {}", std::strerror(errno)));
    done += got;
  }
  arrow::io::BufferReader reader(buffer);
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  const arrow::ipc::DictionaryMemo none;
  return must("rows that wait", arrow::ipc::ReadRecordBatch(kept.schema_, &none, options, &reader));
}

void BatchStore::forget(Kept& kept) {
  // Where the file system cannot do it, the file only grows. Others may still read what has a name.
  if (name_.empty())
    for (const Kept::InFile& place : kept.pieces_)
      ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.offset, padded(place.bytes));
  left_ += kept.memory_bytes_;
  kept = {};
}

std::string BatchStore::packed(const Kept& kept) const {
  const auto schema = must("rows that wait", arrow::ipc::SerializeSchema(*kept.schema_));
  Packer packer;
  packer.put_text(name_);
  packer.put_text(std::string_view(*schema));
  packer.put_list(kept.pieces_);
  return packer.take();
}

BatchStore::Kept BatchStore::unpacked(std::string_view packed) {
  Unpacker unpacker(packed);
  Kept kept;
  kept.of_other_ = file_of(std::string(unpacker.text()));
  arrow::io::BufferReader schema(arrow::Buffer::FromString(std::string(unpacker.text())));
  arrow::ipc::DictionaryMemo none;
  kept.schema_ = must("rows that wait", arrow::ipc::ReadSchema(&schema, &none));
  kept.pieces_ = unpacker.list<Kept::InFile>();
  return kept;
}

std::shared_ptr<const OwnedFd> BatchStore::file_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& file = others_[name];
  if (file) return file;
  const std::filesystem::path path = folder_ / name;
  file = std::make_shared<const OwnedFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!*file) fail_at(path.string(), fmt::format("rows of another process cannot be read: {}", std::strerror(errno)));
  return file;
}

// NFS sends all that was written into a file when any descriptor of it is closed. fdatasync() would wait for a disk.
void BatchStore::flush() const {
  if (fd_ < 0) return;
  const std::filesystem::path path = folder_ / name_;
  if (const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC); fd >= 0 && ::close(fd) == 0) return;
  fail_at(path.string(), fmt::format("rows that wait cannot be written: {}", std::strerror(errno)));
}

void BatchStore::reopen() {
  const std::lock_guard lock(mutex_);
  others_.clear();
}

}  // namespace dtrain::data
