// Fuzzes what a checkpoint's files say of themselves: a header, dtrain.json, an index, other ranks' sums. Each is
// refused, or it makes sense and what it says can be written again.
#include <cstdint>

#include "rendezvous/base/check.h"
#include "strategies/checkpoint/header_wire.h"
#include "strategies/checkpoint/load_plan.h"
#include "strategies/checkpoint/manifest_wire.h"
#include "strategies/checkpoint/sums_wire.h"

using namespace dtrain::checkpoint;

namespace {

template <class Body>
void unless_refused(const Body& body) {
  try {
    body();
  } catch (const Refused& error) {
    DT_CHECK(error.what()[0] != '\0', "a refusal says why");
  }
}

void read_file(std::string_view file) {
  const std::uint64_t length = header_length(file.substr(0, kLengthBytes), file.size());
  const auto tensors = parse_header(file.substr(kLengthBytes, length), file.size());
  std::uint64_t at = kLengthBytes + length;
  for (const HeaderTensor& tensor : tensors) {
    DT_CHECK(tensor.begin == at && tensor.bytes <= file.size() - at, "tensors follow each other, in the file");
    at += tensor.bytes;
    DT_CHECK(elements_of(tensor.shape) * static_cast<std::uint64_t>(tensor.type->bits) == tensor.bytes * 8, "size");
    DT_CHECK(!json_word(tensor.name).empty(), "its name can be written");
  }
  StoredTensors stored;  // as rows of ranks
  stored.add_rows("file", tensors);
  stored.check_whole();
  for (const auto& [name, found] : stored.by_name)
    DT_CHECK(found.parts.size() <= 1, "one file has one part of a tensor, or nothing of an empty one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  unless_refused([&] { read_file(text); });
  unless_refused([&] { parse_header(text, size + kLengthBytes); });
  unless_refused([&] {
    const Manifest manifest = parse_manifest(text);
    const Manifest again = parse_manifest(manifest_text(manifest));
    DT_CHECK(again.step == manifest.step && again.files.size() == manifest.files.size(),
             "what was read can be written");
  });
  unless_refused([&] {
    for (const std::string& name : files_of_index(text)) DT_CHECK(name.find('/') == std::string::npos, "a plain name");
  });
  unless_refused([&] {
    const auto sums = parse_sums(text);
    DT_CHECK(parse_sums(sums_text(sums)).size() == sums.size(), "and so can sums");
    whole_sums({{"a", stored_type("F32"), {16}}}, {sums, sums});
  });
  return 0;
}
