#pragma once
// The Parquet files of a prediction's INPUT.
#include <string>
#include <vector>

#include "data/predict/part_plan.h"

namespace dtrain::data {

// Of a file, a folder with all below it, or a pattern: sorted by their paths, without those in `output` and without
// names that begin with '.' or '_'. In an object store those right in a folder (data/files/data_files.h). Row groups
// are not read. Throws DataError.
std::vector<PredictFile> predict_input(const std::string& input, const std::string& output);

// Throws DataError.
std::string digest_of_program(const std::string& path);

}  // namespace dtrain::data
