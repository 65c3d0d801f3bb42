#pragma once
// Hashes of values: the same for equal values, on every machine and in every unit.
#include <arrow/array.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::data {

// Mixes the values of a column into the hash of each row. An integer has one hash whatever its type; -0.0 is 0.0, and
// all NaN are one. Throws DataError, with `where`, for lists and other types that are not compared.
void mix_in(const std::string& where, const arrow::Array& column, std::vector<std::uint64_t>& hashes);

}  // namespace dtrain::data
