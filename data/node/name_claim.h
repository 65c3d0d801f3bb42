#pragma once
// Several loaders of one process with the same rows, each with a name of its own.
#include <string>

namespace dtrain::data {

// Has a name while it lives: the text, and the smallest number with which no other claim of this process has it. So the
// loaders of a program that makes them in the same order on all ranks meet their like.
class NameClaim {
 public:
  explicit NameClaim(const std::string& text);
  ~NameClaim();
  NameClaim(const NameClaim&) = delete;
  NameClaim& operator=(const NameClaim&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace dtrain::data
