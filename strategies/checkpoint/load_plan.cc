// See load_plan.h.
#include "strategies/checkpoint/load_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace dtrain::checkpoint {
namespace {

constexpr std::size_t kNamesShown = 3;

// "a, b, c and 4 more"
std::string some_names(const std::vector<std::string>& names) {
  std::vector<std::string> few;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) few.push_back(shown(names[i]));
  const std::string text = fmt::format("{}", fmt::join(few, ", "));
  return names.size() <= kNamesShown ? text : fmt::format("{} and {} more", text, names.size() - kNamesShown);
}

void check_names(const StoredTensors& stored, const std::vector<Wanted>& wanted, const LoadRules& rules) {
  std::vector<std::string> missing, others;
  std::set<std::string_view> asked;
  for (const Wanted& one : wanted) {
    asked.insert(one.tensor.name);
    if (!stored.by_name.contains(one.tensor.name)) missing.push_back(one.tensor.name);
  }
  for (const auto& [name, tensor] : stored.by_name)
    if (!asked.contains(name)) others.push_back(name);
  if (!missing.empty())
    throw Refused(fmt::format("the files lack {}", some_names(missing)) +
                  (others.empty() ? "" : fmt::format("; they have {}, for which nobody asks", some_names(others))));
  if (!others.empty() && !rules.allow_others)
    throw Refused(
        fmt::format("the files have {}, for which nobody asks (allow_others permits this)", some_names(others)));
}

void check_same(const HeaderTensor& stored, const TensorSpec& wanted, const LoadRules& rules) {
  if (stored.shape != wanted.shape)
    throw Refused(fmt::format("{} has the shape {} in the files, and {} in the program", shown(wanted.name),
                              shape_text(stored.shape), shape_text(wanted.shape)));
  if (stored.type->bits % 8 != 0)
    throw Refused(fmt::format("{} is {}, which cannot be loaded", shown(wanted.name), stored.type->name));
  if (stored.type != wanted.type && !rules.convert)
    throw Refused(fmt::format("{} is {} in the files, and {} in the program (convert permits this)", shown(wanted.name),
                              stored.type->name, wanted.type->name));
}

}  // namespace

void StoredTensors::add(const std::string& file, std::vector<HeaderTensor> tensors) {
  files.push_back(file);
  for (HeaderTensor& tensor : tensors) {
    const std::string name = tensor.name;
    if (!by_name.emplace(name, StoredTensor{std::move(tensor), files.size() - 1}).second)
      throw Refused(fmt::format("tensor {} is in an earlier file too", shown(name)));
  }
}

void check_part(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t elements = tensor.elements();
  if (begin > elements || count > elements - begin)
    throw Refused(fmt::format("the elements {} to {} of {} are asked for, which has {}", begin, begin + count,
                              shown(tensor.name), elements));
}

std::vector<PlannedRead> plan_reads(const StoredTensors& stored, const std::vector<Wanted>& wanted,
                                    const LoadRules& rules) {
  check_names(stored, wanted, rules);
  std::vector<PlannedRead> reads;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const StoredTensor& found = stored.by_name.at(wanted[i].tensor.name);
    check_same(found.tensor, wanted[i].tensor, rules);
    check_part(wanted[i].tensor, wanted[i].begin, wanted[i].count);
    if (wanted[i].count == 0) continue;
    const auto element = static_cast<std::uint64_t>(found.tensor.type->bits) / 8;
    reads.push_back(
        {i, found.file, found.tensor.begin + wanted[i].begin * element, wanted[i].count * element, found.tensor.type});
  }
  std::sort(reads.begin(), reads.end(), [](const PlannedRead& a, const PlannedRead& b) {
    return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
  });
  return reads;
}

}  // namespace dtrain::checkpoint
