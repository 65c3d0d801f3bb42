#pragma once
// What a ParquetLoader reads, and how. See parquet_loader.h.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtrain {

// Whether batches lie in page-locked memory.
enum class PinMemory {
  no,
  yes,       // an error where torch finds no GPU
  automatic  // if torch finds a GPU
};

struct ParquetLoaderOptions {
  // Files, patterns of files, and folders of files that end in .parquet, here or in object stores, by order of names.
  std::vector<std::string> paths = {};
  // Columns that become tensors of their own: [rows], or [rows, n] if the column has lists of n values. A column NAME
  // of strings, binary or lists of any length becomes two tensors, as torch's jagged layout has them: NAME has the
  // values of all rows side by side (uint8 for strings), and NAME.offsets, int64 [rows + 1], says where each row's
  // begin. Lists of strings or binary become three: NAME has the bytes of all strings, NAME.offsets, int64
  // [strings + 1], says where each string's begin, and NAME.rows, int64 [rows + 1], where each row's strings do. Times
  // are the numbers that the file has for them, int64 or int32. Of a dictionary the values become a tensor.
  std::vector<std::string> columns = {};
  // Tensors [rows, columns] by their names, each of several columns of one type. If `columns` and `matrices` are both
  // empty, every column of the files becomes a tensor.
  std::map<std::string, std::vector<std::string>> matrices = {};
  // What null values of a column become: numbers become this number, strings and lists become empty. In other columns
  // null values are an error.
  std::map<std::string, double> fill = {};

  std::int64_t batch_size = 0;  // rows of this rank in a batch, 1 or more
  int rank = 0;
  int world_size = 1;

  bool shuffle = true;     // false: in the order of the files
  std::uint64_t seed = 0;  // must be the same on every rank
  // Memory for the shuffle, the row group that is being decoded included. Must be the same on every rank. 0: for all
  // rows, which are then shuffled uniformly. auto_window: the largest row group and 1 GB, or all rows if they take
  // less. Where so much memory is not free it is an error.
  std::int64_t window_size_bytes = 0;
  static constexpr std::int64_t auto_window = -1;

  // Before the first batch all files are read once, and stay in the machine's memory as far as it has room. Not needed
  // with a window of all rows.
  bool fully_executed = false;

  // The ranks of a node read the files together: one reads, the others copy their rows from memory that it shares with
  // them. It finds them by LOCAL_RANK, LOCAL_WORLD_SIZE and the job's name, as launchers set them. Where world_size is
  // 1 each rank reads by itself. The rows are the same either way.
  bool one_reader = true;

  bool drop_last = false;
  int prefetch = 4;  // batches that are ready before next() asks for them, 1 or more

  // Page-locked memory is torch's, which takes it with the device that is current when the loader is made, and uses it
  // again for later batches. From there tensor.to(device, non_blocking=true) copies while the program goes on, and the
  // batch may go before the copy is done: torch gives its memory to no other tensor until then.
  PinMemory pin_memory = PinMemory::no;

  // The options that a job's configuration has set: paths from DTRAIN_DATASET, one of these words, and
  // window_size_bytes and fully_executed from DTRAIN_LOADER, a JSON object with these keys. There a window of null has
  // all rows, and "auto" is auto_window. Throws ConfigError.
  static ParquetLoaderOptions from_environment();
};

}  // namespace dtrain
