#pragma once
// Finds the tensors in what a module's forward returns. Ddp looks there to know where gradients will come from, and it
// may replace these tensors by others with the same values. Known are tensors and numbers, and vectors, pairs, tuples,
// optionals and maps of known types. For a type of your own write
//
//   void collect_tensors(MyOutput& output, std::vector<at::Tensor*>& found);   // in the namespace of MyOutput
#include <torch/types.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace dtrain {

inline void collect_tensors(at::Tensor& output, std::vector<at::Tensor*>& found) { found.push_back(&output); }

namespace detail {

template <class T>
concept Optional = std::is_same_v<T, std::optional<typename T::value_type>>;
template <class T>
concept Map = requires(T& t) {
  typename T::mapped_type;
  t.begin()->second;
};
template <class T>
concept Range = requires(T& t) {
  typename T::value_type;
  t.begin() != t.end();
};
template <class T>
concept Tuple = requires {
  std::tuple_size<T>::value;
};

// False if T is not known.
template <class T>
bool look_into(T& output, std::vector<at::Tensor*>& found) {
  if constexpr (requires { collect_tensors(output, found); }) {
    collect_tensors(output, found);
    return true;
  } else if constexpr (Optional<T>) {
    return !output || look_into(*output, found);
  } else if constexpr (Map<T>) {
    bool all = true;
    for (auto& each : output) all &= look_into(each.second, found);
    return all;
  } else if constexpr (Tuple<T>) {
    return std::apply([&](auto&... each) { return (look_into(each, found) & ... & true); }, output);
  } else if constexpr (Range<T>) {
    bool all = true;
    for (auto&& each : output) all &= look_into(each, found);
    return all;
  } else {
    return std::is_arithmetic_v<T>;
  }
}

}  // namespace detail

// The tensors in `output`. None if the type is not known. The pointers point into `output`.
template <class Output>
std::optional<std::vector<at::Tensor*>> output_tensors(Output& output) {
  std::vector<at::Tensor*> found;
  if (!detail::look_into(output, found)) return std::nullopt;
  return found;
}

}  // namespace dtrain
