// See images.h.
#include "examples/resnet/images.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "examples/resnet/cifar_format.h"
#include "examples/resnet/synthetic.h"

namespace resnet {
namespace {

class SyntheticImages : public Images {
 public:
  // Pictures first, first + 1, ... first + count - 1.
  SyntheticImages(std::int64_t first, std::int64_t count, std::int64_t side, std::int64_t classes)
      : first_(first), count_(count), side_(side), classes_(classes) {}

  std::int64_t size() const override { return count_; }

  Samples load(const std::vector<std::int64_t>& indices) const override {
    const auto n = static_cast<std::int64_t>(indices.size());
    Samples samples{torch::empty({n, 3, side_, side_}, torch::kUInt8), torch::empty({n}, torch::kLong)};
    const auto bytes = static_cast<std::size_t>(3 * side_ * side_);
    auto* pixels = samples.pixels.data_ptr<std::uint8_t>();
    auto* labels = samples.labels.data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      *labels = (first_ + index) % classes_;
      draw_picture(first_ + index, *labels, side_, {pixels, bytes});
      pixels += bytes;
      ++labels;
    }
    return samples;
  }

 private:
  const std::int64_t first_, count_, side_, classes_;
};

// An open file of records.
class RecordFile {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) {
      throw std::runtime_error("cannot open " + path_ + ": " + std::strerror(errno) +
                               "; --files wants the folder of CIFAR-10's binary version, or one that "
                               "examples/resnet/digits_as_cifar.py made");
    }
    struct stat facts = {};
    if (::fstat(fd_, &facts) != 0) facts.st_size = 0;
    try {
      records_ = cifar_records(static_cast<std::uint64_t>(facts.st_size), path_);
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  ~RecordFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  RecordFile(RecordFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), records_(other.records_) {}
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  RecordFile& operator=(RecordFile&&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t records() const { return records_; }

  // The bytes of a record, fewer if the file has become shorter.
  std::span<const std::uint8_t> read(std::int64_t record, std::span<std::uint8_t, kCifarRecord> into) const {
    std::size_t got = 0;
    while (got < into.size()) {
      const auto offset = record * static_cast<std::int64_t>(kCifarRecord) + static_cast<std::int64_t>(got);
      const ::ssize_t more = ::pread(fd_, into.data() + got, into.size() - got, offset);
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) throw std::runtime_error("cannot read " + path_ + ": " + std::strerror(errno));
      if (more == 0) break;
      got += static_cast<std::size_t>(more);
    }
    return into.first(got);
  }

 private:
  std::string path_;
  int fd_;
  std::int64_t records_ = 0;
};

class CifarImages : public Images {
 public:
  CifarImages(const std::string& folder, std::span<const std::string_view> names, std::int64_t classes)
      : files_(open_all(folder, names)), places_(records_of(files_)), classes_(classes) {}

  std::int64_t size() const override { return places_.size(); }

  Samples load(const std::vector<std::int64_t>& indices) const override {
    const auto n = static_cast<std::int64_t>(indices.size());
    Samples samples{torch::empty({n, 3, kCifarSide, kCifarSide}, torch::kUInt8), torch::empty({n}, torch::kLong)};
    auto* pixels = samples.pixels.data_ptr<std::uint8_t>();
    auto* labels = samples.labels.data_ptr<std::int64_t>();
    std::array<std::uint8_t, kCifarRecord> buffer;
    for (const std::int64_t index : indices) {
      const auto [file, record] = places_.find(index);
      const auto bytes = files_[file].read(record, buffer);
      *labels++ = cifar_label(bytes, classes_, files_[file].path(), record);
      pixels = std::copy(bytes.begin() + 1, bytes.end(), pixels);
    }
    return samples;
  }

 private:
  static std::vector<RecordFile> open_all(const std::string& folder, std::span<const std::string_view> names) {
    std::vector<RecordFile> files;
    for (const std::string_view name : names) files.emplace_back(folder + "/" + std::string(name));
    return files;
  }
  static CifarPlaces records_of(const std::vector<RecordFile>& files) {
    std::vector<std::int64_t> records;
    for (const RecordFile& file : files) records.push_back(file.records());
    return CifarPlaces(records);
  }

  const std::vector<RecordFile> files_;
  const CifarPlaces places_;
  const std::int64_t classes_;
};

}  // namespace

Split synthetic_images(std::int64_t count, std::int64_t side, std::int64_t classes) {
  return {std::make_unique<SyntheticImages>(0, count, side, classes),
          std::make_unique<SyntheticImages>(count, (count + 3) / 4, side, classes)};
}

Split cifar_images(const std::string& folder, std::int64_t classes) {
  return {std::make_unique<CifarImages>(folder, kCifarTrain, classes),
          std::make_unique<CifarImages>(folder, kCifarTest, classes)};
}

torch::Tensor as_input(const torch::Tensor& pixels, std::int64_t side, torch::Device device) {
  torch::Tensor input = pixels.to(device).to(torch::kFloat);
  if (input.size(3) != side) {
    namespace F = torch::nn::functional;
    const auto how = F::InterpolateFuncOptions().size(std::vector<std::int64_t>{side, side}).align_corners(false);
    input = F::interpolate(input, F::InterpolateFuncOptions(how).mode(torch::kBilinear));
  }
  return (input - 127.5) / 64;
}

}  // namespace resnet
