#include "test/support/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/support/catch.h"

namespace dtrain::test {

void check_golden(const std::string& name, const std::string& actual) { check_file("test/golden/" + name, actual); }

void check_file(const std::string& name, const std::string& actual) {
  const char* root = std::getenv("DTRAIN_SOURCE_DIR");
  std::filesystem::path path = std::filesystem::path(root ? root : ".") / name;
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
