// One epoch of ParquetLoader over a folder of float32 columns f0, f1, ...: what it prints is for run.py.
//
//   loader_bench FOLDER COLUMNS WINDOW BATCH SHUFFLE
//
// Prints: rows a second of the epoch, seconds to the first batch from the constructor on, seconds to a batch in the
// middle of the epoch by load_state(), the peak of the memory of its own in bytes that the loader added.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "dtrain/parquet_loader.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Resident memory that is no file's.
std::int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  dtrain::ParquetLoaderOptions options{.paths = {argv[1]}, .batch_size = std::stoll(argv[4])};
  for (int column = 0; column < std::stoi(argv[2]); ++column)
    options.matrices["x"].push_back(fmt::format("f{}", column));
  options.window_size_bytes = std::stoll(argv[3]);
  options.shuffle = std::stoi(argv[5]) != 0;
  at::empty({1});  // what torch takes once
  const std::int64_t before = own_memory();
  auto begin = Clock::now();
  dtrain::ParquetLoader loader(options);
  auto batch = loader.next();
  const double first = seconds_since(begin);
  std::int64_t rows = 0, batches = 0, peak = 0;
  double sum = 0;
  std::string middle;
  for (; batch; batch = loader.next()) {
    rows += batch->rows;
    sum += batch->at("x").data_ptr<float>()[0];
    if (++batches % 64 == 0) peak = std::max(peak, own_memory() - before);
    if (middle.empty() && rows > loader.rows() / 2) middle = loader.state();
  }
  const double whole = seconds_since(begin);
  begin = Clock::now();
  loader.load_state(middle);
  loader.next();
  fmt::print("{} {} {} {}\n", static_cast<double>(rows) / whole, first, seconds_since(begin), peak);
  return sum == 0;
}
