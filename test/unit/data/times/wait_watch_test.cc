// Whether training waits for data.
#include "data/times/wait_watch.h"

#include <vector>

#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;
using data::WaitWatch;

namespace {

// Seconds, of all batches so far, at which a line would be written, while `batches` batches take `seconds` each.
std::vector<double> lines(WaitWatch& watch, int batches, double seconds, double share) {
  std::vector<double> found;
  for (int i = 0; i < batches; ++i) {
    if (watch.add({1, seconds, share * seconds, 0, 0, 0, 0})) found.push_back(watch.all().seconds);
  }
  return found;
}

}  // namespace

TEST_CASE("a window has batches and seconds enough") {
  WaitWatch slow, fast;
  CHECK(lines(slow, 99, 1, 0.5).empty());
  CHECK(lines(slow, 1, 1, 0.5).size() == 1);
  CHECK(lines(fast, 1000, 1. / 1024, 0.5).empty());
  CHECK(lines(fast, 2000, 1. / 1024, 0.5) == std::vector<double>{2});
}

TEST_CASE("a tenth may be waiting, and each window counts for itself") {
  WaitWatch watch;
  CHECK(lines(watch, 1000, 0.125, 0.1).empty());
  CHECK(lines(watch, 100, 0.125, 0.11).size() == 1);
  WaitWatch other;
  CHECK(lines(other, 1000, 0.125, 0).empty());
  CHECK(lines(other, 100, 0.125, 0.2).size() == 1);
}

TEST_CASE("a line a minute") {
  WaitWatch watch;
  CHECK(lines(watch, 1280, 0.125, 0.5) == std::vector<double>{12.5, 75, 137.5});
}

TEST_CASE("times add up") {
  WaitWatch watch;
  watch.add({1, 1, 2, 3, 4, 5, 6});
  watch.add({1, 10, 20, 30, 40, 50, 60});
  const LoaderTimes& all = watch.all();
  CHECK(all.batches == 2);
  CHECK(std::vector<double>{all.seconds, all.waited, all.disk, all.decode, all.copy, all.ahead} ==
        std::vector<double>{11, 22, 33, 44, 55, 66});
}

TEST_CASE("the line says what takes longest, and what to change") {
  CHECK(
      data::wait_line("ParquetLoader", {100, 20, 5, 10, 5, 4, 1}, 4) ==
      "dtrain: ParquetLoader: training waited for data 25 % of the last 20 s. The reader: disk 50 %, decode 25 %, copy "
      "20 %, ahead 5 %. Reading the files takes longest: name fewer columns, set fully_executed for later epochs from "
      "memory, or use a faster disk");
  CHECK_THAT(data::wait_line("ParquetLoader", {100, 20, 5, 1, 5, 4, 1}, 4),
             Contains("Decoding takes longest: name fewer columns"));
  CHECK_THAT(data::wait_line("ParquetLoader", {100, 20, 5, 1, 5, 6, 1}, 4), Contains("smaller window_size_bytes"));
  CHECK_THAT(data::wait_line("ParquetLoader", {100, 20, 5, 1, 5, 6, 7}, 4), Contains("raise prefetch (now 4)"));
  CHECK_THAT(data::wait_line("ParquetLoader", {100, 20, 5, 0, 0, 0, 0}, 4), Contains("disk 0 %"));
}
