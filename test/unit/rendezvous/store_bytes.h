#pragma once
// Builds the bytes a store client sends, for tests.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/store/store_wire.h"

namespace dtrain::store_bytes {

inline std::string op(StoreOp code) { return std::string(1, static_cast<char>(code)); }

inline std::string u32(std::uint32_t value) {
  std::string out;
  put_store_u32(out, value);
  return out;
}

inline std::string i64(std::int64_t value) {
  std::string out;
  put_store_i64(out, value);
  return out;
}

inline std::string text(std::string_view value) {
  std::string out;
  put_store_bytes(out, value);
  return out;
}

inline std::string greeting() { return op(StoreOp::validate) + u32(kStoreMagic); }
inline std::string ping(std::uint32_t nonce) { return op(StoreOp::ping) + u32(nonce); }

// A message of keys and values only.
inline std::string fields(StoreOp code, std::initializer_list<std::string_view> parts) {
  std::string out = op(code);
  for (const auto part : parts) out += text(part);
  return out;
}

inline std::string set(std::string_view key, std::string_view value) { return fields(StoreOp::set, {key, value}); }
inline std::string get(std::string_view key) { return fields(StoreOp::get, {key}); }
inline std::string add(std::string_view key, std::int64_t delta) { return fields(StoreOp::add, {key}) + i64(delta); }
inline std::string barrier(std::string_view key, std::int64_t world_size) {
  return fields(StoreOp::barrier, {key}) + i64(world_size);
}

// CHECK, WAIT and MULTI_GET.
inline std::string keys(StoreOp code, const std::vector<std::string>& names) {
  std::string out = op(code) + i64(static_cast<std::int64_t>(names.size()));
  for (const auto& name : names) out += text(name);
  return out;
}
inline std::string wait(const std::vector<std::string>& names) { return keys(StoreOp::wait, names); }

inline std::string multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = op(StoreOp::multi_set) + i64(static_cast<std::int64_t>(pairs.size()));
  for (const auto& [key, value] : pairs) out += text(key) + text(value);
  return out;
}

}  // namespace dtrain::store_bytes
