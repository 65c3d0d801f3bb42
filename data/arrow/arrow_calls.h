#pragma once
// Arrow's answers: the value, or a DataError of one line.
#include <arrow/result.h>
#include <arrow/status.h>
#include <fmt/format.h>
#include <parquet/exception.h>

#include <string>
#include <string_view>
#include <utility>

#include "dtrain/data_errors.h"

namespace dtrain::data {

[[noreturn]] inline void fail_at(const std::string& where, const std::string& reason) {
  throw DataError(fmt::format("dtrain: {}: {}", where, reason.substr(0, reason.find('\n'))));
}

// Of an error of the system: what the system says of it, too.
inline std::string reason_of(const arrow::Status& status) {
  const auto& detail = status.detail();
  if (detail == nullptr || detail->type_id() != std::string_view("arrow::ErrnoDetail")) return status.message();
  return status.message() + ": " + detail->ToString();
}

inline void must(const std::string& where, const arrow::Status& status) {
  if (!status.ok()) fail_at(where, reason_of(status));
}

template <typename T>
T must(const std::string& where, arrow::Result<T> result) {
  if (!result.ok()) fail_at(where, reason_of(result.status()));
  return std::move(result).ValueUnsafe();
}

// Parquet says some errors by exceptions.
template <typename Ask>
auto must_all(const std::string& where, const Ask& ask) {
  try {
    return must(where, ask());
  } catch (const parquet::ParquetException& error) {
    fail_at(where, error.what());
  }
}

}  // namespace dtrain::data
