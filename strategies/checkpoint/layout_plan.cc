// See layout_plan.h.
#include "strategies/checkpoint/layout_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "strategies/checkpoint/crc32c.h"

namespace dtrain::checkpoint {
namespace {

std::uint64_t bytes_of(const TensorSpec& tensor) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements(), tensor.element_bytes(), &bytes) || bytes > (std::uint64_t{1} << 62))
    throw Refused(fmt::format("tensor {} is too large for a file", shown(tensor.name)));
  return bytes;
}

void check_tensor_names(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__")
      throw Refused(fmt::format("a tensor has the name '{}', which safetensors does not allow", tensor.name));
    if (!names.insert(tensor.name).second)
      throw Refused(fmt::format("two tensors have the name {}", shown(tensor.name)));
  }
}

// Places in the list, file by file.
std::vector<std::vector<std::size_t>> filled_files(const std::vector<TensorSpec>& tensors, std::uint64_t most) {
  std::vector<std::vector<std::size_t>> files;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = bytes_of(tensors[i]);
    if (files.empty() || (most != 0 && bytes + more > most && bytes != 0)) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(i);
    bytes += more;
  }
  return files;
}

void place_tensors(PlannedFile& file, std::size_t number, Layout& layout) {
  std::sort(file.tensors.begin(), file.tensors.end(), [&](std::size_t a, std::size_t b) {
    const TensorSpec &left = layout.tensors[a], &right = layout.tensors[b];
    return left.type->bits != right.type->bits ? left.type->bits > right.type->bits : left.name < right.name;
  });
  std::vector<HeaderTensor> header;
  std::uint64_t at = 0;
  for (const std::size_t i : file.tensors) {
    const TensorSpec& tensor = layout.tensors[i];
    header.push_back({tensor.name, tensor.type, tensor.shape, at, bytes_of(tensor)});
    at += header.back().bytes;
  }
  file.head = header_text(header);
  file.bytes = file.head.size() + at;
  for (std::size_t k = 0; k < file.tensors.size(); ++k) {
    layout.file_of[file.tensors[k]] = number;
    layout.begin_of[file.tensors[k]] = file.head.size() + header[k].begin;
  }
}

}  // namespace

Layout plan_layout(std::vector<TensorSpec> tensors, const std::string& stem, std::uint64_t max_file_bytes) {
  check_tensor_names(tensors);
  Layout layout;
  layout.tensors = std::move(tensors);
  layout.file_of.resize(layout.tensors.size());
  layout.begin_of.resize(layout.tensors.size());
  const auto files = filled_files(layout.tensors, max_file_bytes);
  for (std::size_t number = 0; number < files.size(); ++number) {
    PlannedFile file;
    file.name = files.size() == 1 ? fmt::format("{}.safetensors", stem)
                                  : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, number + 1, files.size());
    file.tensors = files[number];
    place_tensors(file, number, layout);
    layout.files.push_back(std::move(file));
  }
  return layout;
}

std::string index_text(const Layout& layout) {
  nlohmann::json map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    map[layout.tensors[i].name] = layout.files[layout.file_of[i]].name;
    total += bytes_of(layout.tensors[i]);
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

std::string fingerprint(const std::vector<TensorSpec>& tensors) {
  std::string text;
  for (const TensorSpec& tensor : tensors)
    text += fmt::format("{}:{} {} {}\n", tensor.name.size(), tensor.name, tensor.type->name, shape_text(tensor.shape));
  return fmt::format("{}-{:08x}", tensors.size(), crc32c(0, text.data(), text.size()));
}

}  // namespace dtrain::checkpoint
