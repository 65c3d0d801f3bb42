#include "cli/ckpt/ckpt_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using CkptOrderedJson = nlohmann::ordered_json;

constexpr std::size_t kLongestName = 200;

std::string shape_of(const CkptTensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.shape, ", ")); }

std::size_t tensor_count(const Ckpt& ckpt) {
  std::size_t count = 0;
  for (const CkptFile& file : ckpt.files) count += file.tensors.size();
  return count;
}

std::uint64_t byte_count(const Ckpt& ckpt) {
  std::uint64_t bytes = 0;
  for (const CkptFile& file : ckpt.files) bytes += file.bytes;
  return bytes;
}

std::string table_of(const CkptFile& file) {
  std::size_t name = 0, type = 0, shape = 0;
  for (const CkptTensor& tensor : file.tensors) {
    name = std::max(name, printable(tensor.name, kLongestName).size());
    type = std::max(type, tensor.type.size());
    shape = std::max(shape, shape_of(tensor).size());
  }
  std::string text;
  for (const CkptTensor& tensor : file.tensors)
    text += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>12}\n", printable(tensor.name, kLongestName), name, tensor.type,
                        type, shape_of(tensor), shape, tensor.bytes);
  return text;
}

}  // namespace

std::string ckpt_text(const Ckpt& ckpt) {
  std::string text = printable(ckpt.path, 400);
  if (ckpt.manifest)
    text += fmt::format(": step {}, saved by {}", ckpt.manifest->step, counted(ckpt.manifest->world_size, "rank"));
  text += fmt::format("\n{}, {}, {} bytes\n", counted(ckpt.files.size(), "file"), counted(tensor_count(ckpt), "tensor"),
                      byte_count(ckpt));
  for (const CkptFile& file : ckpt.files) {
    text += fmt::format("\n{}: {}, {} bytes\n", printable(file.name, 400), counted(file.tensors.size(), "tensor"),
                        file.bytes);
    text += table_of(file);
  }
  if (ckpt.manifest && !ckpt.manifest->extra.empty())
    text += fmt::format("\nextra: {}\n", printable(ckpt.manifest->extra, 2000));
  return text;
}

std::string ckpt_json(const Ckpt& ckpt) {
  CkptOrderedJson json;
  json["path"] = ckpt.path;
  if (ckpt.manifest) {
    json["step"] = ckpt.manifest->step;
    json["world_size"] = ckpt.manifest->world_size;
  }
  json["bytes"] = byte_count(ckpt);
  json["files"] = CkptOrderedJson::array();
  for (const CkptFile& file : ckpt.files) {
    CkptOrderedJson one = {{"name", file.name}, {"bytes", file.bytes}, {"tensors", CkptOrderedJson::array()}};
    for (const CkptTensor& tensor : file.tensors) {
      CkptOrderedJson row = {{"name", tensor.name},
                             {"dtype", tensor.type},
                             {"shape", tensor.shape},
                             {"begin", tensor.begin},
                             {"bytes", tensor.bytes}};
      if (const auto sum = file.sums.find(tensor.name); sum != file.sums.end())
        row["crc32c"] = fmt::format("{:08x}", sum->second);
      one["tensors"].push_back(std::move(row));
    }
    json["files"].push_back(std::move(one));
  }
  if (ckpt.manifest && !ckpt.manifest->extra.empty())
    json["extra"] = CkptOrderedJson::parse(ckpt.manifest->extra, nullptr, false);
  return json.dump(2, ' ', false, CkptOrderedJson::error_handler_t::replace) + "\n";
}

std::string ckpt_verdict(const Ckpt& ckpt) {
  const std::string damage = ckpt.first_damage();
  if (!damage.empty()) return fmt::format("damaged: {}\n", printable(damage, 2000));
  const std::string read = fmt::format("{} with {}, {} bytes", counted(ckpt.files.size(), "file"),
                                       counted(tensor_count(ckpt), "tensor"), byte_count(ckpt));
  if (!ckpt.manifest)
    return fmt::format("{}: {}: headers are in order; without dtrain.json there are no sums to compare\n",
                       printable(ckpt.path, 400), read);
  return fmt::format("{}: step {} is intact: {}\n", printable(ckpt.path, 400), ckpt.manifest->step, read);
}

std::string ckpt_written_text(const Ckpt& ckpt, const CkptPlan& plan, const std::string& folder, std::uint64_t bytes) {
  std::size_t tensors = 0;
  for (const CkptNewFile& file : plan.files) tensors += file.tensors.size();
  return fmt::format(
      "{}: {} with {}, {} bytes; {}\n", printable(folder, 400), counted(plan.files.size(), "file"),
      counted(tensors, "tensor"), bytes,
      ckpt.manifest ? "each tensor was compared with its crc32c" : "without dtrain.json there were no sums to compare");
}

}  // namespace dtrain::cli
