#pragma once
// OUTPUT of a prediction: who works on which part, what has its result, what has failed. docs/adr/0536 has its files.
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/predict/part_plan.h"
#include "data/shared/shared_files.h"

namespace dtrain::data {

class PartFolder {
 public:
  static constexpr std::size_t kMostTries = 3;  // of a part in one job

  // Rows of each row group of a file.
  using RowGroupsOf = std::function<std::vector<std::int64_t>(const std::string& path)>;
  // `mine`: without row groups, which are read if no other process has done it. `program`: for people. Throws
  // DataError: the folder has something else.
  PartFolder(std::string folder, const PartsPlan& mine, const std::string& program, const RowGroupsOf& row_groups);

  // All results were there when this process began.
  bool done_before() const { return done_before_; }
  const std::vector<PredictFile>& files() const { return files_; }
  const std::vector<Part>& parts() const { return parts_; }
  std::string words(const Part& part) const { return part_words(part, files_[part.file].path); }
  std::string result(const Part& part) const;
  // Parts without a result.
  std::vector<Part> left() const;

  // This process's, while it lives: nobody else has it, it has no result, and it has tries left. Else nothing.
  std::optional<OwnedFd> claim(const Part& part) const;
  // Nobody works on it, and nobody will.
  bool has_failed(const Part& part) const;

  // A line in the file of tries, from now until settle(): who dies meanwhile has tried in vain. If this process is
  // asked to end (SIGTERM, SIGINT), the line is taken back first.
  class OneTry {
   public:
    OneTry(const PartFolder& folder, const Part& part);
    ~OneTry();
    OneTry(const OneTry&) = delete;
    OneTry& operator=(const OneTry&) = delete;
    void settle();  // the line goes

   private:
    OwnedFd file_;
    std::int64_t begun_ = 0;
    std::string path_;
  };

  // Bytes of the schema that all results have: these, if this is the first one.
  std::string schema(const std::string& mine) const;
  // `write` makes the file that it is told the name of. The result is on the disk when this returns.
  void commit(const Part& part, const std::function<void(const std::string&)>& write) const;
  // All results are there: says so, and removes what only the work needed.
  void finish() const;
  bool is_finished() const { return is_there(success_); }

 private:
  PartsPlan settled_plan(const PartsPlan& mine, const std::string& program, const RowGroupsOf& row_groups);
  void refuse_foreign() const;
  std::string beside(const Part& part, const std::string& ending) const;
  std::size_t tries(const Part& part) const;

  const std::string folder_, work_, success_;
  const std::string job_;
  bool done_before_ = false;
  std::vector<PredictFile> files_;
  std::vector<Part> parts_;
};

}  // namespace dtrain::data
