#pragma once
// A file of which ranges are written and read, with their CRC-32C. Errors are Refused, with the file's name. The
// destructor tells no error, so who writes calls close().
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "strategies/checkpoint/stored_type.h"

namespace dtrain::checkpoint {

class RangeFile {
 public:
  enum class Use { create, write, read };

  // `create` makes a new file, and refuses one that is there. `read` refuses what is no regular file.
  RangeFile(std::string path, Use use);
  ~RangeFile();
  RangeFile(const RangeFile&) = delete;
  RangeFile& operator=(const RangeFile&) = delete;

  std::uint64_t bytes() const;
  // Makes room, so that a full disk is known before anything is written, where the file system can do that.
  void reserve(std::uint64_t bytes);
  // From now on large ranges are written past the page cache (O_DIRECT), where the file system can do that: it costs
  // the CPUs a third, and there is little left for sync().
  void write_directly();
  // The sum goes on from `before`.
  std::uint32_t write(std::uint64_t at, const void* data, std::size_t bytes, std::uint32_t before = 0);
  std::uint32_t read(std::uint64_t at, void* data, std::size_t bytes, std::uint32_t before = 0);
  void read_unsummed(std::uint64_t at, void* data, std::size_t bytes);
  // The sum alone.
  std::uint32_t sum(std::uint64_t at, std::uint64_t bytes, std::uint32_t before = 0);
  // To the disk.
  void sync();
  // The end of writing: some file systems tell only here that the disk is full.
  void close();
  // Throws Refused with this file's name before the text.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  [[noreturn]] void failed(const char* to_do) const;
  std::uint32_t write_cached(std::uint64_t at, const char* from, std::size_t bytes, std::uint32_t before);
  std::size_t write_blocks(std::uint64_t at, const char* from, std::size_t bytes, std::uint32_t& sum);
  void stop_direct();
  std::size_t read_some(std::uint64_t at, char* to, std::size_t bytes);
  char* cached();

  std::string path_;
  int descriptor_ = -1;
  int direct_ = -1;  // the same file with O_DIRECT
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  std::unique_ptr<char, Free> blocks_;  // what is written next with O_DIRECT
  std::unique_ptr<char[]> cached_;      // what is read and has no sum yet
};

// The whole of a small file. Throws Refused.
std::string read_whole(const std::string& path, std::uint64_t most);
// A new file. Throws Refused.
void write_whole(const std::string& path, const std::string& text, bool sync);
// The names in the folder are on the disk. Throws Refused.
void sync_folder(const std::string& path);

}  // namespace dtrain::checkpoint
