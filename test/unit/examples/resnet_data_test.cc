// The ResNet example's images: the format of CIFAR-10's binary version, and pictures that are made up.
#include <algorithm>
#include <stdexcept>

#include "examples/resnet/cifar_format.h"
#include "examples/resnet/synthetic.h"
#include "test/support/catch.h"

using namespace resnet;
using Catch::Matchers::Contains;
using Pixels = std::vector<std::uint8_t>;

namespace {

Pixels picture(std::int64_t index, std::int64_t label, std::int64_t side = 32) {
  Pixels pixels(static_cast<std::size_t>(3 * side * side));
  draw_picture(index, label, side, pixels);
  return pixels;
}

double mean_difference(const Pixels& a, const Pixels& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("a file of CIFAR-10 is a whole number of records, at least one") {
  CHECK(cifar_records(3073, "f") == 1);
  CHECK(cifar_records(30'730'000, "f") == 10'000);
  for (const std::uint64_t bytes : {0UL, 1UL, 3072UL, 3074UL, 30'729'999UL}) {
    CHECK_THROWS_WITH(cifar_records(bytes, "data_batch_1.bin"),
                      Contains("data_batch_1.bin has " + std::to_string(bytes) + " bytes"));
  }
}

TEST_CASE("a record of several files in a row is found in its file") {
  const CifarPlaces places({3, 1, 2});
  CHECK(places.size() == 6);
  std::vector<CifarPlaces::Place> found;
  for (std::int64_t i = 0; i < 6; ++i) found.push_back(places.find(i));
  CHECK(found == std::vector<CifarPlaces::Place>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}});
  CHECK_THROWS_AS(places.find(-1), std::out_of_range);
  CHECK_THROWS_AS(places.find(6), std::out_of_range);
  CHECK_THROWS_AS(CifarPlaces({}).find(0), std::out_of_range);
}

TEST_CASE("a record begins with its class") {
  Pixels record(kCifarRecord);
  record[0] = 9;
  CHECK(cifar_label(record, 10, "f", 0) == 9);
  CHECK_THROWS_WITH(cifar_label(record, 9, "f.bin", 4),
                    "f.bin: record 4 is of class 9; with --classes 9 the highest is 8");
  record[0] = 255;
  CHECK(cifar_label(record, 1000, "f", 0) == 255);
  record.pop_back();
  CHECK_THROWS_WITH(cifar_label(record, 1000, "f.bin", 4), Contains("f.bin ends within record 4"));
  CHECK_THROWS_WITH(cifar_label({}, 10, "f.bin", 4), Contains("f.bin ends within record 4"));
}

TEST_CASE("pictures are the same each time, alike within a class, and all different") {
  CHECK(picture(5, 3) == picture(5, 3));
  CHECK(picture(5, 3) != picture(6, 3));
  const double same = mean_difference(picture(5, 3), picture(6, 3));
  for (std::int64_t label = 0; label < 10; ++label) {
    if (label != 3) CHECK(mean_difference(picture(5, 3), picture(6, label)) > 1.2 * same);
  }
  const Pixels odd = picture(1, 1, 9);  // a side that 4 does not divide
  CHECK(*std::max_element(odd.begin(), odd.end()) > 128);
  CHECK(*std::min_element(odd.begin(), odd.end()) < 128);
}
