#pragma once
// Values as bytes, in the order in which they are put, for another process of the same program. Pure.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dtrain/data_errors.h"

namespace dtrain::data {

// What another process has left cannot be of this work.
[[noreturn]] inline void throw_of_others() {
  throw DataError("dtrain: what another process has found is damaged, or of other work; start again");
}

class Packer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void put_list(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws DataError where the bytes end too early.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, cut(1, sizeof value).data(), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> list() {
    const auto count = get<std::uint64_t>();
    const std::string_view bytes = cut(count, sizeof(T));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::string_view text() { return cut(get<std::uint64_t>(), 1); }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view cut(std::uint64_t count, std::size_t size) {
    if (count > left_.size() / size) throw DataError("dtrain: what another process has found is cut off");
    const std::string_view bytes = left_.substr(0, count * size);
    left_.remove_prefix(bytes.size());
    return bytes;
  }

  std::string_view left_;
};

}  // namespace dtrain::data
