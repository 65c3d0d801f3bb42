// See header_wire.h.
#include "strategies/checkpoint/header_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace dtrain::checkpoint {
namespace {

using HeaderJson = nlohmann::json;

constexpr int kHeaderDepth = 4;
constexpr std::uint64_t kDataAlign = 64;

std::uint64_t number_of(const HeaderJson& json, const std::string& what) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
    throw Refused(what + " is no number from 0 to 2^63 - 1");
  return json.get<std::uint64_t>();
}

const HeaderJson& member_of(const HeaderJson& json, const char* name, const std::string& tensor) {
  const auto at = json.find(name);
  if (at == json.end()) throw Refused(fmt::format("tensor {} has no {}", tensor, name));
  return *at;
}

HeaderTensor tensor_of(const std::string& name, const HeaderJson& json, std::uint64_t data_begin,
                       std::uint64_t file_bytes) {
  const std::string told = shown(name);
  if (!json.is_object()) throw Refused(fmt::format("tensor {} is no object", told));
  HeaderTensor tensor;
  tensor.name = name;
  const HeaderJson& type = member_of(json, "dtype", told);
  if (type.is_string()) tensor.type = stored_type(type.get_ref<const std::string&>());
  if (tensor.type == nullptr) throw Refused(fmt::format("tensor {} has a dtype that is unknown", told));
  const HeaderJson& shape = member_of(json, "shape", told);
  const HeaderJson& offsets = member_of(json, "data_offsets", told);
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    throw Refused(fmt::format("tensor {} has no shape and two data_offsets", told));
  for (const HeaderJson& size : shape)
    tensor.shape.push_back(static_cast<std::int64_t>(number_of(size, fmt::format("a size of tensor {}", told))));
  const std::uint64_t begin = number_of(offsets[0], fmt::format("an offset of tensor {}", told));
  const std::uint64_t end = number_of(offsets[1], fmt::format("an offset of tensor {}", told));
  if (end < begin || end > file_bytes - data_begin)
    throw Refused(fmt::format("tensor {} lies outside of the file", told));
  tensor.begin = data_begin + begin;
  tensor.bytes = end - begin;
  const std::uint64_t elements = elements_of(tensor.shape);
  const auto bits = static_cast<std::uint64_t>(tensor.type->bits);
  if (elements > std::numeric_limits<std::uint64_t>::max() / bits || elements * bits % 8 != 0 ||
      elements * bits / 8 != tensor.bytes)
    throw Refused(fmt::format("tensor {} has {} bytes, which is not the size of {} {}", told, tensor.bytes,
                              tensor.type->name, shape_text(tensor.shape)));
  return tensor;
}

// Where the tensors of the file begin in those of which they are parts.
std::map<std::string, std::vector<std::int64_t>> offsets_of(const HeaderJson& metadata) {
  if (!metadata.is_object() ||
      !std::all_of(metadata.begin(), metadata.end(), [](const HeaderJson& value) { return value.is_string(); }))
    throw Refused("its __metadata__ is not an object of texts");
  std::map<std::string, std::vector<std::int64_t>> offsets;
  const auto info = metadata.find("DCP_SHARDING_INFO");
  if (info == metadata.end()) return offsets;
  const HeaderJson json = parse_json(info->get_ref<const std::string&>(), kHeaderDepth);
  if (!json.is_object()) throw Refused("its DCP_SHARDING_INFO is no object");
  for (const auto& [name, value] : json.items()) {
    const std::string told = shown(name);
    const HeaderJson* saved = value.is_object() && value.contains("saved_offsets") ? &value["saved_offsets"] : nullptr;
    if (saved == nullptr || !saved->is_array())
      throw Refused(fmt::format("tensor {} has no saved_offsets in DCP_SHARDING_INFO", told));
    for (const HeaderJson& at : *saved)
      offsets[name].push_back(static_cast<std::int64_t>(number_of(at, fmt::format("an offset of tensor {}", told))));
  }
  return offsets;
}

// Neither gaps nor overlaps, up to the end of the file.
void check_cover(const std::vector<HeaderTensor>& in_order, std::uint64_t data_begin, std::uint64_t file_bytes) {
  std::uint64_t at = data_begin;
  for (const HeaderTensor& tensor : in_order) {
    if (tensor.begin != at)
      throw Refused(fmt::format("tensor {} {} before it", shown(tensor.name),
                                tensor.begin < at ? "overlaps the tensor" : "leaves a gap"));
    at += tensor.bytes;
  }
  if (at != file_bytes) throw Refused(fmt::format("its tensors end at byte {}, but it has {} bytes", at, file_bytes));
}

}  // namespace

std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 200))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  return name.size() > 200 ? out + "..." : out;
}

std::uint64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) throw Refused(fmt::format("the shape {} has a size below 0", shape_text(shape)));
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(size), &product) ||
        product > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
      throw Refused(fmt::format("the shape {} has too many elements", shape_text(shape)));
  return product;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::uint64_t header_length(std::string_view first_eight, std::uint64_t file_bytes) {
  if (first_eight.size() < kLengthBytes || file_bytes < kLengthBytes)
    throw Refused(fmt::format("it has {} bytes, too few for a header", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(first_eight[i]);
  if (length > kHeaderBytesMax)
    throw Refused(
        fmt::format("its header would have {} bytes, more than the {} that are allowed", length, kHeaderBytesMax));
  if (length > file_bytes - kLengthBytes)
    throw Refused(fmt::format("its header would have {} bytes, but the file has {}", length, file_bytes));
  return length;
}

std::vector<HeaderTensor> parse_header(std::string_view header, std::uint64_t file_bytes) {
  if (header.empty() || header.front() != '{') throw Refused("its header does not begin with {");
  if (header.size() > file_bytes || file_bytes - header.size() < kLengthBytes)
    throw Refused("its header is longer than the file");
  const HeaderJson json = parse_json(header, kHeaderDepth);
  const std::uint64_t data_begin = kLengthBytes + header.size();
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::vector<std::int64_t>> offsets;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__")
      offsets = offsets_of(value);
    else
      tensors.push_back(tensor_of(name, value, data_begin, file_bytes));
  }
  for (HeaderTensor& tensor : tensors)
    if (const auto at = offsets.find(tensor.name); at != offsets.end()) tensor.offsets = at->second;
  std::sort(tensors.begin(), tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
  check_cover(tensors, data_begin, file_bytes);
  return tensors;
}

std::string header_text(const std::vector<HeaderTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  for (const HeaderTensor& tensor : tensors)
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_word(tensor.name),
                        tensor.type->name, fmt::join(tensor.shape, ","), tensor.begin, tensor.begin + tensor.bytes);
  json += '}';
  while ((kLengthBytes + json.size()) % kDataAlign != 0) json += ' ';
  if (json.size() > kHeaderBytesMax)
    throw Refused(
        fmt::format("the header of a file would have {} bytes, more than the {} that safetensors allows; "
                    "set max_file_bytes, so that there are more files",
                    json.size(), kHeaderBytesMax));
  std::string head;
  for (std::size_t i = 0; i < kLengthBytes; ++i) head += static_cast<char>((json.size() >> (8 * i)) & 0xFFU);
  return head + json;
}

nlohmann::json parse_json(std::string_view text, int depth) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto look = [&](int level, HeaderJson::parse_event_t event, const HeaderJson& value) {
    if (level > depth) throw Refused(fmt::format("its JSON is deeper than {} levels", depth));
    if (event == HeaderJson::parse_event_t::object_start) names.emplace_back();
    if (event == HeaderJson::parse_event_t::object_end) names.pop_back();
    if (event == HeaderJson::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      throw Refused(fmt::format("its JSON has the name {} twice", shown(value.get<std::string>())));
    return true;
  };
  try {
    return HeaderJson::parse(text.begin(), text.end(), look);
  } catch (const HeaderJson::exception& error) {
    throw Refused("its JSON is damaged");
  }
}

std::string json_word(const std::string& name) {
  try {
    return HeaderJson(name).dump();
  } catch (const HeaderJson::exception&) {
    throw Refused(fmt::format("the name {} is not UTF-8", shown(name)));
  }
}

}  // namespace dtrain::checkpoint
