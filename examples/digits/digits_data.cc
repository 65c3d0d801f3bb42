// See digits_data.h.
#include "examples/digits/digits_data.h"

#include <zlib.h>

#include <charconv>
#include <memory>
#include <stdexcept>

namespace digits {
namespace {

constexpr int kPixels = 64;
constexpr std::size_t kMaxBytes = 64UL << 20;

std::string unzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(::gzopen(path.c_str(), "rb"), ::gzclose);
  if (!file) {
    throw std::runtime_error("cannot open the digits at " + path +
                             "; run `make setup`, or name digits.csv.gz of scikit-learn with --data");
  }
  std::string text;
  char buffer[1 << 16];
  int got = 0;
  while ((got = ::gzread(file.get(), buffer, sizeof(buffer))) > 0 && text.size() < kMaxBytes) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (got != 0) throw std::runtime_error("the digits at " + path + " are damaged: not a whole gzip file");
  return text;
}

// The numbers of the text, whatever of commas and line ends separates them.
std::vector<float> numbers(const std::string& text, const std::string& path) {
  std::vector<float> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ',' || *at == '\n' || *at == '\r') {
      ++at;
      continue;
    }
    float value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc()) throw std::runtime_error("the digits at " + path + " hold something that is no number");
    values.push_back(value);
    at = next;
  }
  return values;
}

}  // namespace

Samples Samples::select(const std::vector<std::int64_t>& indices) const {
  const auto index = torch::tensor(indices, torch::kLong);
  return {images.index_select(0, index), labels.index_select(0, index)};
}

Samples read_digits(const std::string& path) {
  std::vector<float> values = numbers(unzip(path), path);
  constexpr int kColumns = kPixels + 1;
  if (values.empty() || values.size() % kColumns != 0) {
    throw std::runtime_error("the digits at " + path + " are not lines of 64 pixels and a digit");
  }
  const auto rows = static_cast<std::int64_t>(values.size()) / kColumns;
  const auto table = torch::from_blob(values.data(), {rows, kColumns}).clone();
  const auto labels = table.select(1, kPixels).to(torch::kLong);
  if (labels.min().item<std::int64_t>() < 0 || labels.max().item<std::int64_t>() > 9) {
    throw std::runtime_error("the digits at " + path + " hold a label outside 0 to 9");
  }
  return {table.narrow(1, 0, kPixels).reshape({rows, 1, 8, 8}) / 16.0, labels};
}

Split split(const Samples& all) {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> test;
  for (std::int64_t i = 0; i < all.size(); ++i) (i % 5 == 4 ? test : train).push_back(i);
  return {all.select(train), all.select(test)};
}

}  // namespace digits
