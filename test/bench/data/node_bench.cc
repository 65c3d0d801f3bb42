// One rank of a node that reads a folder of float32 columns f0, f1, ... for one epoch, for node.py.
//
//   node_bench FOLDER COLUMNS WINDOW BATCH RANK RANKS
//
// It goes on with each line of standard input, so that all ranks are at the same point, and answers with a line: that
// it is there; that half of the epoch is over; the memory that the loader has added, in bytes, where what processes
// share counts with an equal part for each; the bytes that it has read, at the end of the epoch; and the processor time
// that the epoch has taken, in microseconds.
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

#include "dtrain/parquet_loader.h"

namespace {

std::int64_t number_in(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size()));
  }
  return 0;
}

std::int64_t memory() { return number_in("/proc/self/smaps_rollup", "Pss:") * 1024; }

void answer(std::int64_t number) {
  fmt::print("{}\n", number);
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  dtrain::ParquetLoaderOptions options{.paths = {argv[1]}, .batch_size = std::stoll(argv[4])};
  for (int column = 0; column < std::stoi(argv[2]); ++column)
    options.matrices["x"].push_back(fmt::format("f{}", column));
  options.window_size_bytes = std::stoll(argv[3]);
  options.rank = std::stoi(argv[5]);
  options.world_size = std::stoi(argv[6]);
  at::empty({1});  // what torch takes once
  answer(0);
  const std::int64_t before = memory();
  answer(0);
  const std::clock_t begin = std::clock();
  dtrain::ParquetLoader loader(options);
  std::int64_t batches = 0;
  double sum = 0;
  const auto read_until = [&](std::int64_t end) {
    for (; batches < end; ++batches) sum += loader.next()->at("x").data_ptr<float>()[0];
  };
  read_until(loader.batches() / 2);
  answer(0);
  answer(memory() - before);
  read_until(loader.batches());
  answer(number_in("/proc/self/io", "rchar:"));
  answer(std::clock() - begin);
  return sum == 0;
}
