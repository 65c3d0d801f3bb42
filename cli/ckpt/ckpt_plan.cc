#include "cli/ckpt/ckpt_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_numbers.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kDataAlign = 64;

const CkptTensor& source_of(const Ckpt& ckpt, const CkptMove& move) {
  return ckpt.files[move.file].tensors[move.tensor];
}

// The new name; `used` learns which rename made it.
std::string renamed(const std::string& name, const CkptRewrite& rewrite, std::set<std::size_t>& used) {
  for (std::size_t i = 0; i < rewrite.renames.size(); ++i) {
    const auto& [from, to] = rewrite.renames[i];
    if (!name.starts_with(from)) continue;
    used.insert(i);
    return to + name.substr(from.size());
  }
  return name;
}

CkptMove move_of(const CkptTensor& tensor, const CkptRewrite& rewrite) {
  CkptMove move{.name = tensor.name, .type = tensor.type, .bytes = tensor.bytes};
  const auto from = ckpt_float(tensor.type), to = ckpt_float(rewrite.type);
  if (from && to) {
    move.type = rewrite.type;
    move.bytes = tensor.bytes / ckpt_float_bytes(*from) * ckpt_float_bytes(*to);
  }
  return move;
}

// The model's tensors, in the order of the files.
Result<std::vector<CkptMove>> moves_of(const Ckpt& ckpt, const CkptRewrite& rewrite) {
  std::vector<CkptMove> moves;
  std::set<std::string> names;
  std::set<std::size_t> used;
  for (std::size_t file = 0; file < ckpt.files.size(); ++file) {
    if (ckpt.manifest && !ckpt.files[file].name.starts_with("model")) continue;  // the optimizer's
    const std::vector<CkptTensor>& tensors = ckpt.files[file].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CkptMove move = move_of(tensors[i], rewrite);
      move.file = file;
      move.tensor = i;
      move.name = renamed(move.name, rewrite, used);
      if (move.name.empty() || move.name == "__metadata__")
        return usage_error(fmt::format("tensor {} would have the name '{}', which safetensors does not allow",
                                       printable(tensors[i].name, 200), move.name));
      if (!names.insert(move.name).second)
        return usage_error(fmt::format("two tensors would have the name {}", printable(move.name, 200)));
      moves.push_back(std::move(move));
    }
  }
  for (std::size_t i = 0; i < rewrite.renames.size(); ++i) {
    if (used.contains(i)) continue;
    return usage_error(fmt::format("--rename {}={}: no tensor's name begins with '{}', or an earlier --rename has it",
                                   printable(rewrite.renames[i].first, 200), printable(rewrite.renames[i].second, 200),
                                   printable(rewrite.renames[i].first, 200)));
  }
  if (moves.empty()) return usage_error(fmt::format("{} has no tensors of a model", printable(ckpt.path, 400)));
  return moves;
}

std::string head_of(const Ckpt& ckpt, const std::vector<CkptMove>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t at = 0;
  for (const CkptMove& move : tensors) {
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", nlohmann::json(move.name).dump(),
                        move.type, fmt::join(source_of(ckpt, move).shape, ","), at, at + move.bytes);
    at += move.bytes;
  }
  json += '}';
  while ((8 + json.size()) % kDataAlign != 0) json += ' ';
  std::string head;
  for (unsigned i = 0; i < 8; ++i) head += static_cast<char>((json.size() >> (8 * i)) & 0xFFU);
  return head + json;
}

std::string index_text_of(const CkptPlan& plan) {
  nlohmann::json map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (const CkptNewFile& file : plan.files) {
    for (const CkptMove& move : file.tensors) {
      map[move.name] = file.name;
      total += move.bytes;
    }
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

}  // namespace

std::uint64_t CkptNewFile::bytes() const {
  std::uint64_t sum = head.size();
  for (const CkptMove& move : tensors) sum += move.bytes;
  return sum;
}

Result<CkptPlan> plan_ckpt(const Ckpt& ckpt, const CkptRewrite& rewrite) {
  auto moves = moves_of(ckpt, rewrite);
  if (!moves) return moves.error();
  CkptPlan plan;
  std::uint64_t filled = 0;
  for (CkptMove& move : *moves) {
    if (plan.files.empty() || (rewrite.max_bytes != 0 && filled != 0 && filled + move.bytes > rewrite.max_bytes)) {
      plan.files.emplace_back();
      filled = 0;
    }
    filled += move.bytes;
    plan.files.back().tensors.push_back(std::move(move));
  }
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    CkptNewFile& file = plan.files[i];
    // Larger elements first, so that each tensor begins at a multiple of its element's size.
    std::sort(file.tensors.begin(), file.tensors.end(), [](const CkptMove& a, const CkptMove& b) {
      const unsigned left = ckpt_bits(a.type), right = ckpt_bits(b.type);
      return left != right ? left > right : a.name < b.name;
    });
    file.name = plan.files.size() == 1 ? "model.safetensors"
                                       : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.files.size());
    file.head = head_of(ckpt, file.tensors);
    if (file.head.size() > kCkptHeaderMax)
      return usage_error("the header of a file would be larger than safetensors allows; set a smaller --max-size");
  }
  if (plan.files.size() > 1) plan.index = index_text_of(plan);
  return plan;
}

}  // namespace dtrain::cli
