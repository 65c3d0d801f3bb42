// See cifar_format.h.
#include "examples/resnet/cifar_format.h"

#include <algorithm>
#include <stdexcept>

namespace resnet {

std::int64_t cifar_records(std::uint64_t bytes, const std::string& path) {
  if (bytes == 0 || bytes % kCifarRecord != 0) {
    throw std::runtime_error(path + " has " + std::to_string(bytes) + " bytes, which is not a whole number of " +
                             std::to_string(kCifarRecord) +
                             "-byte records of CIFAR-10's binary version; copy it again, in full");
  }
  return static_cast<std::int64_t>(bytes / kCifarRecord);
}

CifarPlaces::CifarPlaces(const std::vector<std::int64_t>& records) {
  std::int64_t end = 0;
  for (const std::int64_t count : records) ends_.push_back(end += count);
}

CifarPlaces::Place CifarPlaces::find(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw std::out_of_range("image " + std::to_string(index) + " of " + std::to_string(size()) + " does not exist");
  }
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const std::int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return {static_cast<std::size_t>(end - ends_.begin()), index - begin};
}

std::int64_t cifar_label(std::span<const std::uint8_t> record, std::int64_t classes, const std::string& path,
                         std::int64_t number) {
  if (record.size() != kCifarRecord) {
    throw std::runtime_error(path + " ends within record " + std::to_string(number) + "; copy it again, in full");
  }
  if (record[0] >= classes) {
    throw std::runtime_error(path + ": record " + std::to_string(number) + " is of class " + std::to_string(record[0]) +
                             "; with --classes " + std::to_string(classes) + " the highest is " +
                             std::to_string(classes - 1));
  }
  return record[0];
}

}  // namespace resnet
