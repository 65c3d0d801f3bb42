#pragma once
// Golden files: text that the tests compare whole. DTRAIN_UPDATE_GOLDEN=1 rewrites them; read the diff before
// committing.
#include <string>

namespace dtrain::test {

// Compare `actual` with test/golden/<name>, and fail the running test case with both texts if they differ.
void check_golden(const std::string& name, const std::string& actual);
// What is in it.
std::string read_golden(const std::string& name);
// As check_golden, with any file of the source tree.
void check_file(const std::string& path, const std::string& actual);

}  // namespace dtrain::test
