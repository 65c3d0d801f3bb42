// See diverged.h. Each rank makes 64 bits of each parameter, or of the kinds of all, and all compare those of all.
#include "strategies/ddp/diverged.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <functional>
#include <sstream>
#include <unordered_set>

#include "dtrain/errors.h"
#include "strategies/collectives/collectives.h"
#include "strategies/collectives/texts.h"

namespace dtrain {
namespace {

// Any change of one word changes it; not against somebody who means to deceive.
std::int64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().to(at::kCPU).contiguous();
  const auto* bytes = static_cast<const std::byte*>(here.const_data_ptr());
  std::uint64_t hash = here.nbytes();
  for (std::size_t at = 0; at < here.nbytes(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), here.nbytes() - at));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::int64_t>(hash);
}

struct Described {
  std::string name, what;
};

// Names have no line ends.
std::vector<Described> read_described(const std::string& text) {
  std::vector<Described> all;
  std::istringstream lines(text);
  for (Described one; std::getline(lines, one.name) && std::getline(lines, one.what);) all.push_back(one);
  return all;
}

std::string describe(const at::Tensor& tensor) {
  std::string text = fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
  if (!tensor.is_contiguous()) text += fmt::format(" with strides [{}]", fmt::join(tensor.strides(), ", "));
  return text;
}

std::vector<Described> describe(const std::vector<NamedParameter>& parameters,
                                const std::vector<NamedParameter>& buffers) {
  std::vector<Described> all;
  for (const auto& [name, tensor] : parameters)
    all.push_back({name, describe(tensor) + (tensor.requires_grad() ? "" : ", which needs no gradient")});
  for (const auto& [name, tensor] : buffers) all.push_back({name, "the buffer " + describe(tensor)});
  return all;
}

// A tensor that two ranks do not have alike; no text: there is none.
struct Difference {
  std::string name, text;
};

// The first of `more` whose name is not in `fewer`, where all of `fewer` are in `more`: one that was left out in the
// middle moves those after it. Null otherwise.
const Described* left_out(const std::vector<Described>& more, const std::vector<Described>& fewer) {
  const auto in = [](const std::vector<Described>& all, const Described& one) {
    return std::any_of(all.begin(), all.end(), [&](const Described& known) { return known.name == one.name; });
  };
  if (!std::all_of(fewer.begin(), fewer.end(), [&](const Described& one) { return in(more, one); })) return nullptr;
  const auto found = std::find_if_not(more.begin(), more.end(), [&](const Described& one) { return in(fewer, one); });
  return found == more.end() ? nullptr : &*found;
}

Difference first_difference(const std::vector<Described>& here, int rank, const std::vector<Described>& there,
                            int other) {
  const auto only = [](const Described& one, int has, int lacks) -> Difference {
    return {one.name, fmt::format("'{}' of rank {} ({}) does not exist on rank {}", one.name, has, one.what, lacks)};
  };
  if (const Described* one = left_out(here, there)) return only(*one, rank, other);
  if (const Described* one = left_out(there, here)) return only(*one, other, rank);
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    if (i >= here.size()) return only(there[i], other, rank);
    if (i >= there.size()) return only(here[i], rank, other);
    if (here[i].what == there[i].what) continue;
    const std::string again = here[i].name == there[i].name ? "" : fmt::format("'{}', ", there[i].name);
    return {here[i].name, fmt::format("'{}' is {} on rank {}, and {}{} on rank {}", here[i].name, here[i].what, rank,
                                      again, there[i].what, other)};
  }
  return {};
}

}  // namespace

std::vector<NamedParameter> parameters_of(const torch::nn::Module& module) {
  std::vector<NamedParameter> found;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) found.push_back({item.key(), item.value()});
  }
  return found;
}

std::vector<NamedParameter> buffers_of(const torch::nn::Module& module) {
  std::vector<NamedParameter> found;
  for (const auto& item : module.named_buffers()) found.push_back({item.key(), item.value()});
  return found;
}

void require_alike(const Group& group, const std::vector<NamedParameter>& parameters,
                   const std::vector<NamedParameter>& buffers) {
  std::string text, kinds;
  for (const auto& [name, what] : describe(parameters, buffers)) {
    text += fmt::format("{}\n{}\n", name, what);
    kinds += what + '\n';
  }
  at::Tensor own = at::full({1}, static_cast<std::int64_t>(std::hash<std::string>{}(kinds)), at::kLong);
  at::Tensor all = at::empty({group.size()}, at::kLong);
  group.all_gather(all, own);
  if ((all == own).all().item<bool>()) return;  // the same on all: all return, or none does
  const std::vector<std::string> texts = all_gather_texts(group.process_group(), text);
  const std::vector<Described> first = read_described(texts.front());
  Difference difference;
  std::vector<int> ranks;
  for (std::size_t r = 1; r < texts.size(); ++r) {
    Difference its = first_difference(read_described(texts[r]), group.ranks()[r], first, group.ranks().front());
    if (its.text.empty()) continue;
    if (ranks.empty()) difference = std::move(its);
    ranks.push_back(group.ranks()[r]);
  }
  if (ranks.empty()) return;  // the same, to programs that make other numbers of a text
  // The launcher reads the first rank of the text, as in require_equal().
  throw DivergedError(difference.name, ranks,
                      fmt::format("dtrain: Ddp needs the same module on all ranks, and rank {} has another: {}",
                                  ranks.front(), difference.text));
}

void require_equal(const Group& group, const std::vector<NamedParameter>& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  at::Tensor own = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) own[i] = fingerprint(parameters[static_cast<std::size_t>(i)].tensor);
  at::Tensor all = at::empty({group.size() * count}, at::kLong);
  group.all_gather(all, own);
  const at::Tensor table = all.view({group.size(), count});
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<int> ranks;
    for (int r = 1; r < group.size(); ++r) {
      if (table[r][i].item<std::int64_t>() != table[0][i].item<std::int64_t>())
        ranks.push_back(group.ranks()[static_cast<std::size_t>(r)]);
    }
    if (ranks.empty()) continue;
    const std::string& name = parameters[static_cast<std::size_t>(i)].name;
    throw DivergedError(name, ranks,
                        fmt::format("dtrain: parameter '{}' of rank {} differs from that of rank {}: a rank changed "
                                    "its own, or its optimizer does not do what the others do",
                                    name, fmt::join(ranks, ", "), group.ranks().front()));
  }
}

}  // namespace dtrain
