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
    if (!one.optional && !stored.by_name.contains(one.tensor.name)) missing.push_back(one.tensor.name);
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

void check_same(const TensorSpec& stored, const TensorSpec& wanted, bool convert) {
  if (stored.shape != wanted.shape)
    throw Refused(fmt::format("{} has the shape {} in the files, and {} in the program", shown(wanted.name),
                              shape_text(stored.shape), shape_text(wanted.shape)));
  if (stored.type->bits % 8 != 0)
    throw Refused(fmt::format("{} is {}, which cannot be loaded", shown(wanted.name), stored.type->name));
  if (stored.type != wanted.type && !convert)
    throw Refused(fmt::format("{} is {} in the files, and {} in the program (convert permits this)", shown(wanted.name),
                              stored.type->name, wanted.type->name));
}

}  // namespace

void StoredTensors::add(const std::string& file, const std::vector<HeaderTensor>& tensors) {
  files.push_back(file);
  for (const HeaderTensor& tensor : tensors) {
    StoredTensor stored{{tensor.name, tensor.type, tensor.shape}, {}};
    stored.parts.push_back({files.size() - 1, tensor.begin, 0, stored.tensor.elements()});
    if (!by_name.emplace(tensor.name, std::move(stored)).second)
      throw Refused(fmt::format("tensor {} is in an earlier file too", shown(tensor.name)));
  }
}

void StoredTensors::add_rows(const std::string& file, const std::vector<HeaderTensor>& tensors) {
  files.push_back(file);
  for (const HeaderTensor& tensor : tensors) {
    std::vector<std::int64_t> shape = tensor.shape;
    std::uint64_t begin = 0;
    const std::vector<std::int64_t>& offsets = tensor.offsets;
    const auto not_by_rows = [&] {
      return Refused(
          fmt::format("{} has a part of tensor {} with the shape {} at {}, and loads only parts by rows; "
                      "consolidate the files with Python",
                      file, shown(tensor.name), shape_text(tensor.shape), shape_text(offsets)));
    };
    if (!offsets.empty()) {
      if (offsets.size() != shape.size() || std::any_of(offsets.begin() + 1, offsets.end(), [](auto at) { return at; }))
        throw not_by_rows();
      if (__builtin_add_overflow(shape[0], offsets[0], &shape[0])) throw not_by_rows();
      std::vector<std::int64_t> before = shape;
      before[0] = offsets[0];
      begin = elements_of(before);
    }
    elements_of(shape);  // also of no more than there may be
    const auto [at, is_new] = by_name.try_emplace(tensor.name, StoredTensor{{tensor.name, tensor.type, shape}, {}});
    TensorSpec& whole = at->second.tensor;
    if (whole.type != tensor.type)
      throw Refused(
          fmt::format("tensor {} has two types, {} and {}", shown(tensor.name), whole.type->name, tensor.type->name));
    if (whole.shape.size() != shape.size() ||
        (!shape.empty() && !std::equal(shape.begin() + 1, shape.end(), whole.shape.begin() + 1)))
      throw not_by_rows();
    if (!shape.empty()) whole.shape[0] = std::max(whole.shape[0], shape[0]);
    at->second.parts.push_back({files.size() - 1, tensor.begin, begin, elements_of(tensor.shape)});
  }
}

void StoredTensors::check_whole() {
  for (auto& [name, stored] : by_name) {
    std::erase_if(stored.parts, [](const StoredPart& part) { return part.count == 0; });
    std::sort(stored.parts.begin(), stored.parts.end(),
              [](const StoredPart& a, const StoredPart& b) { return a.begin < b.begin; });
    std::uint64_t end = 0;
    for (const StoredPart& part : stored.parts) {
      if (part.begin != end)
        throw Refused(fmt::format("the parts of tensor {} {} at element {}", shown(name),
                                  part.begin < end ? "overlap" : "leave a gap", end));
      end += part.count;
    }
    if (end != stored.tensor.elements())
      throw Refused(
          fmt::format("the parts of tensor {} end at element {} of {}", shown(name), end, stored.tensor.elements()));
  }
}

void StoredTensors::strip(const std::string& prefix) {
  std::map<std::string, StoredTensor> kept;
  for (auto& [name, stored] : by_name) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    stored.tensor.name = rest;
    kept.emplace(rest, std::move(stored));
  }
  by_name = std::move(kept);
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
    const Wanted& want = wanted[i];
    const auto found = stored.by_name.find(want.tensor.name);
    if (found == stored.by_name.end()) continue;  // optional
    const TensorSpec& tensor = found->second.tensor;
    check_same(tensor, want.tensor, rules.convert || want.convert);
    check_part(want.tensor, want.begin, want.count);
    for (const StoredPart& part : found->second.parts) {
      const std::uint64_t begin = std::max(want.begin, part.begin);
      const std::uint64_t end = std::min(want.begin + want.count, part.begin + part.count);
      if (begin >= end) continue;
      reads.push_back({i, begin - want.begin, end - begin, part.file,
                       part.at + (begin - part.begin) * tensor.element_bytes(), (end - begin) * tensor.element_bytes(),
                       tensor.type});
    }
  }
  std::sort(reads.begin(), reads.end(), [](const PlannedRead& a, const PlannedRead& b) {
    return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
  });
  return reads;
}

}  // namespace dtrain::checkpoint
