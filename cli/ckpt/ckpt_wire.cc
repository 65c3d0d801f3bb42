#include "cli/ckpt/ckpt_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_sum.h"

namespace dtrain::cli {
namespace {

using CkptJson = nlohmann::json;

constexpr int kManifestDepth = 64;
constexpr int kHeaderDepth = 4;
constexpr std::uint64_t kMostNumber = std::numeric_limits<std::int64_t>::max();

// What is wrong, for the functions of ckpt_wire.h alone.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Body>
auto caught(const Body& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (const Damaged& error) {
    return usage_error(error.what());
  }
}

// A name once in each object, and no deeper than `depth`.
CkptJson json_of(std::string_view text, int depth) {
  std::vector<std::set<std::string>> open;
  const auto look = [&](int level, CkptJson::parse_event_t event, const CkptJson& value) {
    if (level > depth) throw Damaged(fmt::format("its JSON is deeper than {} levels", depth));
    if (event == CkptJson::parse_event_t::object_start) open.emplace_back();
    if (event == CkptJson::parse_event_t::object_end) open.pop_back();
    if (event == CkptJson::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw Damaged(fmt::format("its JSON has the name {} twice", printable(value.get<std::string>(), 200)));
    return true;
  };
  try {
    return CkptJson::parse(text.begin(), text.end(), look);
  } catch (const CkptJson::exception&) {
    throw Damaged("its JSON is damaged");
  }
}

const CkptJson& entry(const CkptJson& json, const char* name) {
  if (!json.is_object()) throw Damaged(fmt::format("what should have '{}' is not an object", name));
  const auto at = json.find(name);
  if (at == json.end()) throw Damaged(fmt::format("'{}' is missing", name));
  return *at;
}

std::uint64_t natural(const CkptJson& json, const char* name, std::uint64_t most = kMostNumber) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most)
    throw Damaged(fmt::format("'{}' is no number from 0 to {}", name, most));
  return json.get<std::uint64_t>();
}

void check_size(const CkptTensor& tensor, const std::string& told) {
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  std::uint64_t bits = empty ? 0 : ckpt_bits(tensor.type);
  bool too_large = false;
  for (const std::int64_t size : tensor.shape)
    too_large = __builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits) || too_large;
  if (too_large || bits % 8 != 0 || bits / 8 != tensor.bytes)
    throw Damaged(fmt::format("tensor {} has {} bytes, which is not the size of {} [{}]", told, tensor.bytes,
                              tensor.type, fmt::join(tensor.shape, ", ")));
}

CkptTensor tensor_of(const std::string& name, const CkptJson& json, std::uint64_t data, std::uint64_t file_bytes) {
  const std::string told = printable(name, 200);
  const CkptJson &type = entry(json, "dtype"), &shape = entry(json, "shape"), &offsets = entry(json, "data_offsets");
  CkptTensor tensor;
  tensor.name = name;
  if (type.is_string()) tensor.type = type.get<std::string>();
  if (ckpt_bits(tensor.type) == 0) throw Damaged(fmt::format("tensor {} has a dtype that is unknown", told));
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    throw Damaged(fmt::format("tensor {} has no shape and two data_offsets", told));
  for (const CkptJson& size : shape) tensor.shape.push_back(static_cast<std::int64_t>(natural(size, "shape")));
  const std::uint64_t begin = natural(offsets[0], "data_offsets"), end = natural(offsets[1], "data_offsets");
  if (end < begin || end > file_bytes - data) throw Damaged(fmt::format("tensor {} lies outside of the file", told));
  tensor.begin = data + begin;
  tensor.bytes = end - begin;
  check_size(tensor, told);
  return tensor;
}

void check_places(const std::vector<CkptTensor>& in_order, std::uint64_t at, std::uint64_t file_bytes) {
  for (const CkptTensor& tensor : in_order) {
    if (tensor.begin != at)
      throw Damaged(fmt::format("tensor {} {} before it", printable(tensor.name, 200),
                                tensor.begin < at ? "overlaps the tensor" : "leaves a gap"));
    at += tensor.bytes;
  }
  if (at != file_bytes) throw Damaged(fmt::format("its tensors end at byte {}, but it has {} bytes", at, file_bytes));
}

std::string file_name(const CkptJson& json) {
  std::string name = json.is_string() ? json.get<std::string>() : "";
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos || has_control_bytes(name))
    throw Damaged(fmt::format("'{}' is no name of a file in this folder", printable(name, 200)));
  return name;
}

std::uint32_t sum_of(const CkptJson& json, const std::string& tensor) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Damaged(fmt::format("the crc32c of {} is not eight hexadecimal digits", printable(tensor, 200)));
  return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
}

CkptManifestFile file_of(const CkptJson& json) {
  CkptManifestFile file{file_name(entry(json, "name")), natural(entry(json, "bytes"), "bytes"), {}};
  const CkptJson& sums = entry(json, "crc32c");
  if (!sums.is_object()) throw Damaged("'crc32c' is not an object");
  for (const auto& [tensor, sum] : sums.items()) file.sums[tensor] = sum_of(sum, tensor);
  return file;
}

// As the training layer sums it (strategies/checkpoint/manifest_wire.cc).
void check_own_sum(const CkptJson& json) {
  const auto told = json.find("crc32c");
  if (told == json.end()) return;  // nothing is known
  CkptJson rest = json;
  rest.erase("crc32c");
  const std::string sum = fmt::format("{:08x}", ckpt_sum(0, rest.dump()));
  if (*told != sum) throw Damaged(fmt::format("it is damaged: its crc32c is {}, and should be {}", sum, told->dump()));
}

void check_keys(const CkptJson& json) {
  static const std::set<std::string_view> kKeys = {"crc32c", "extra",   "files",     "format",
                                                   "step",   "version", "world_size"};
  for (const auto& item : json.items())
    if (!kKeys.contains(item.key())) throw Damaged(fmt::format("{} is no key of it", printable(item.key(), 200)));
}

}  // namespace

unsigned ckpt_bits(std::string_view type) {
  static const std::map<std::string_view, unsigned> kBits = {
      {"F64", 64},    {"I64", 64},    {"U64", 64},    {"C64", 64},        {"F32", 32},    {"I32", 32},
      {"U32", 32},    {"F16", 16},    {"BF16", 16},   {"I16", 16},        {"U16", 16},    {"I8", 8},
      {"U8", 8},      {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"F8_E5M2FNUZ", 8},
  };
  const auto at = kBits.find(type);
  return at == kBits.end() ? 0 : at->second;
}

Result<std::uint64_t> ckpt_header_length(std::string_view first, std::uint64_t file_bytes) {
  if (first.size() < 8) return usage_error(fmt::format("it has {} bytes, too few for a header", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(first[i]);
  if (length > kCkptHeaderMax || length > file_bytes - 8)
    return usage_error(fmt::format("its header would have {} bytes, but the file has {}, and {} are allowed", length,
                                   file_bytes, kCkptHeaderMax));
  return length;
}

Result<std::vector<CkptTensor>> read_ckpt_header(std::string_view header, std::uint64_t file_bytes) {
  return caught([&] {
    if (header.empty() || header.front() != '{') throw Damaged("its header does not begin with {");
    if (file_bytes < 8 || header.size() > file_bytes - 8) throw Damaged("its header is longer than the file");
    const CkptJson json = json_of(header, kHeaderDepth);
    const std::uint64_t data = 8 + header.size();
    std::vector<CkptTensor> tensors;
    for (const auto& [name, value] : json.items()) {
      const bool texts = value.is_object() &&
                         std::all_of(value.begin(), value.end(), [](const CkptJson& one) { return one.is_string(); });
      if (name == "__metadata__" && !texts) throw Damaged("its __metadata__ is not an object of texts");
      if (name != "__metadata__") tensors.push_back(tensor_of(name, value, data, file_bytes));
    }
    std::sort(tensors.begin(), tensors.end(), [](const CkptTensor& a, const CkptTensor& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
    });
    check_places(tensors, data, file_bytes);
    return tensors;
  });
}

Result<CkptManifest> read_ckpt_manifest(std::string_view text) {
  return caught([&] {
    const CkptJson json = json_of(text, kManifestDepth);
    if (entry(json, "format") != "dtrain checkpoint") throw Damaged("'format' is not \"dtrain checkpoint\"");
    const std::uint64_t version = natural(entry(json, "version"), "version");
    if (version != 1)
      throw Damaged(fmt::format("it has version {} of the format, and this dtrain reads version 1", version));
    CkptManifest manifest;
    manifest.step = static_cast<std::int64_t>(natural(entry(json, "step"), "step"));
    manifest.world_size =
        static_cast<int>(natural(entry(json, "world_size"), "world_size", std::numeric_limits<int>::max()));
    const CkptJson& files = entry(json, "files");
    if (!files.is_array()) throw Damaged("'files' is not a list");
    std::set<std::string> names;
    for (const CkptJson& file : files) {
      manifest.files.push_back(file_of(file));
      if (!names.insert(manifest.files.back().name).second) throw Damaged("'files' has a name twice");
    }
    check_keys(json);
    check_own_sum(json);
    if (json.contains("extra")) manifest.extra = json["extra"].dump();
    return manifest;
  });
}

Result<std::map<std::string, std::string>> read_ckpt_index(std::string_view text) {
  return caught([&] {
    const CkptJson json = json_of(text, kHeaderDepth);
    const CkptJson& map = entry(json, "weight_map");
    if (!map.is_object()) throw Damaged("'weight_map' is not an object");
    std::map<std::string, std::string> files;
    for (const auto& one : map.items()) files[one.key()] = file_name(one.value());
    return files;
  });
}

}  // namespace dtrain::cli
