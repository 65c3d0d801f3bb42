#include "data/mixture/source_files.h"

#include <fmt/format.h>

#include <utility>

#include "data/base/random_bits.h"
#include "data/mixture/mixture_plan.h"
#include "data/order/row_order.h"

namespace dtrain::data {

SourceFiles::SourceFiles(const ParquetLoaderOptions& options, std::string name)
    : name_(std::move(name)),
      files_(mixture_name, options),
      seed_(options.seed),
      window_(options.shuffle ? files_.window(options.window_size_bytes) : 0) {
  if (options.fully_executed && window_ != RowOrder::whole_set && files_.set().is_remote()) {
    refuse_mixture(fmt::format(
        "fully_executed is for files of this machine, which stay in its memory once they are read; those of "
        "source '{}' are in an object store. Leave it out, or copy the files here",
        name_));
  }
}

std::uint64_t SourceFiles::files_digest() const {
  std::uint64_t digest = files_.set().digest();
  for (const char letter : name_) digest = mixed(digest + static_cast<unsigned char>(letter) + 1);
  return digest;
}

std::uint64_t SourceFiles::order_digest() const {
  return mixed(mixed(seed_ + 1) + static_cast<std::uint64_t>(window_));
}

}  // namespace dtrain::data
