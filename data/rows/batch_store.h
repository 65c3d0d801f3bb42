#pragma once
// Rows that wait: in memory as long as there is room, then in a file that has no name, so nothing of it is left when
// the process ends, however it ends. Or in a file with a name, which other processes read.
#include <arrow/record_batch.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/os/owned_fd.h"

namespace dtrain::data {

class BatchStore {
 public:
  // At most `memory_bytes` are kept in memory. The file is made when it is needed, in `folder`.
  BatchStore(std::filesystem::path folder, std::int64_t memory_bytes);
  // All of it goes into a file of this name in `folder`, where each process has a name of its own.
  BatchStore(std::filesystem::path folder, std::string name);
  ~BatchStore();
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  // A batch that waits, in pieces, and where they are.
  class Kept {
   public:
    bool empty() const { return schema_ == nullptr; }

   private:
    friend class BatchStore;
    struct InFile {
      std::int64_t offset = 0, bytes = 0;
    };
    std::shared_ptr<arrow::Schema> schema_;
    std::shared_ptr<arrow::RecordBatch> rows_;  // none: they are in the file
    std::vector<std::uint32_t> ends_;           // of the pieces in rows_
    std::vector<InFile> pieces_;
    std::int64_t memory_bytes_ = 0;
    std::shared_ptr<const OwnedFd> of_other_;  // the file of another process
  };

  // `ends`: of the pieces, in rows. By many threads at once. Throws DataError.
  Kept put(std::shared_ptr<arrow::RecordBatch> rows, std::vector<std::uint32_t> ends);
  std::shared_ptr<arrow::RecordBatch> get(const Kept& kept, std::size_t piece) const;
  // Gives its memory to others, and its place in the file back to the disk. What was got of it stays.
  void forget(Kept& kept);

  // With a name: where a batch is, for the stores of other processes with this folder. What was put is in the file.
  std::string packed(const Kept& kept) const;
  Kept unpacked(std::string_view packed);
  // What was put can be read on another host.
  void flush() const;
  // Files of others are opened again: one that has grown may look as it was, on a network's file system.
  void reopen();

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t spilled_bytes() const { return end_; }

 private:
  Kept::InFile write(const arrow::RecordBatch& batch);
  int file();
  std::shared_ptr<const OwnedFd> file_of(const std::string& name);

  const std::filesystem::path folder_;
  const std::string name_;  // empty: none
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const OwnedFd>> others_;
  std::atomic<std::int64_t> left_;
  std::atomic<std::int64_t> end_{0};
  std::atomic<int> fd_{-1};
};

}  // namespace dtrain::data
