#include "test/support/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/support/catch.h"

namespace dtrain::test {

namespace {

std::filesystem::path in_source_tree(const std::string& name) {
  const char* root = std::getenv("DTRAIN_SOURCE_DIR");
  return std::filesystem::path(root ? root : ".") / name;
}

}  // namespace

std::string read_golden(const std::string& name) {
  std::ifstream file(in_source_tree("test/golden/" + name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void check_golden(const std::string& name, const std::string& actual) { check_file("test/golden/" + name, actual); }

void check_file(const std::string& name, const std::string& actual) {
  const std::filesystem::path path = in_source_tree(name);
  if (std::getenv("DTRAIN_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
  }
  std::ifstream file(path, std::ios::binary);
  INFO("golden file " << path << (file ? "" : " cannot be read"));
  std::ostringstream expected;
  expected << file.rdbuf();
  CHECK(actual == expected.str());
}

}  // namespace dtrain::test
