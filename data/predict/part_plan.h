#pragma once
// What the work of a prediction is: the parts of the input and their names. Python's workers have the same
// (data/python/dtrain_data/parts.py), and ADR 0536 has the files that both read and write. Pure.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct PredictFile {
  std::string path;  // absolute, or the URI of an object
  std::int64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::vector<std::int64_t> row_groups{};  // rows of each
};

// Of what the results are.
struct PartsPlan {
  static constexpr int kFormat = 1;
  int format = kFormat;
  std::string kind = "predict";
  std::string script;  // a digest of the program
  std::vector<std::string> arguments;
  std::vector<PredictFile> files;
};

std::string plan_text(const PartsPlan& plan);
// Nothing: it is no plan.
std::optional<PartsPlan> parse_plan(const std::string& text);

// Why results of `theirs` are none of `mine`, as the end of a sentence; empty: they are. Row groups are not compared:
// a file of the same size and time has the same.
std::string plan_difference(const PartsPlan& mine, const PartsPlan& theirs, const std::string& program);

// A row group that has rows.
struct Part {
  std::size_t number = 0;
  std::size_t file = 0;  // its number in the plan
  int group = 0;
  std::int64_t first = 0, rows = 0;  // in the file
};
std::vector<Part> parts_of(const std::vector<PredictFile>& files);

// "row group 3 of FILE (rows 300 to 399)"
std::string part_words(const Part& part, const std::string& path);
// "part-00003.parquet": sorted as texts, the names are in the order of the parts.
std::string result_name(std::size_t number, std::size_t count);
// "00003.lock"
std::string name_beside(std::size_t number, const std::string& ending);

// Of the program's bytes. Not against attacks: it tells one build from another.
class ProgramDigest {
 public:
  void add(const char* bytes, std::size_t count);
  std::string text() const;

 private:
  std::uint64_t one_ = 0, other_ = 1;
};

}  // namespace dtrain::data
