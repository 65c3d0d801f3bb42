// Fuzzes meta.json and the lease of an entry, which another process, another host or a damaged disk has written: they
// are refused, or the same when written and read again; and no file is outside of the entry.
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/base/one_line.h"
#include "data/cache/lease_plan.h"
#include "data/cache/meta_wire.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::data;

namespace {

void check_meta(const std::string& text) {
  const auto meta = parse_meta(text);
  if (!meta) return;
  for (const CachedFile& file : meta->files) {
    const auto path = (std::filesystem::path("/cache/entry") / file.path).lexically_normal();
    DT_CHECK(path.native().starts_with("/cache/entry"), "a file is within the entry");
  }
  const std::string written = meta_text(*meta);
  const auto again = parse_meta(written);
  DT_CHECK(again && meta_text(*again) == written, "it is the same when written again");
  DT_CHECK(again->bytes() == meta->bytes() && again->all_rows() == meta->all_rows(), "with the same sums");
}

void check_lease(const std::string& text) {
  auto lease = parse_lease(text);
  if (!lease) return;
  check_one_line(one_line(builder_name(*lease)));
  const std::string written = lease_text(*lease);
  const auto again = parse_lease(written);
  DT_CHECK(again && lease_text(*again) == written, "it is the same when written again");
  ++lease->beat;
  DT_CHECK(lease_text(*lease).size() == written.size(), "a beat can be written over the one before");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_meta(text);
  check_lease(text);
  return 0;
}
