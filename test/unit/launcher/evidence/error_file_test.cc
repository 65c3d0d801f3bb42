#include "launcher/evidence/error_file.h"

#include <sys/stat.h>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {

TEST_CASE("both shapes that torch accepts are understood") {
  ErrorFile file = parse_error_file(R"({"message": {"message": "RuntimeError: boom",
      "extraInfo": {"py_callstack": "Traceback\n  x\nRuntimeError: boom\n", "timestamp": "1795246790"}}})");
  CHECK(file.message == "RuntimeError: boom");
  CHECK(file.traceback == "Traceback\n  x\nRuntimeError: boom\n");
  CHECK(file.timestamp == 1795246790);
  CHECK(file.note.empty());

  file = parse_error_file(R"({"message": "text", "timestamp": 10})");
  CHECK(file.message == "text");
  CHECK(file.traceback.empty());
  CHECK(file.timestamp == 10);

  file = parse_error_file(R"({"message": {"message": "m", "extraInfo": {"timestamp": 1.5}, "errorCode": 3}})");
  CHECK(file.message == "m");
  CHECK_FALSE(file.timestamp);
}

TEST_CASE("anything else gives a note and no more") {
  auto text = GENERATE(as<std::string>{}, "", "{", "null", "[]", "7", "\"x\"", "{}", R"({"message": 3})",
                       R"({"message": {}})", R"({"message": {"message": []}})", R"({"message": null})",
                       "{\"message\": \"\xff\xfe\"}", std::string("\0\0", 2));
  CAPTURE(text);
  ErrorFile file = parse_error_file(text);
  CHECK_FALSE(file.note.empty());
  CHECK(file.message.empty());
  CHECK(file.traceback.empty());
  CHECK_FALSE(file.timestamp);
}

TEST_CASE("deep nesting and sizes over the limit are refused calmly") {
  const std::string too_deep = "the error file is nested more than 100 levels deep";
  CHECK(parse_error_file(std::string(kErrorFileLimit, '[')).note == too_deep);
  std::string deep = std::string(kErrorFileLimit / 2, '[') + std::string(kErrorFileLimit / 2, ']');
  CHECK(parse_error_file(deep).note == too_deep);
  CHECK(parse_error_file(R"({"message": "m", "deep": )" + std::string(101, 0x5b) + std::string(101, 0x5d) + "}").note ==
        too_deep);
  CHECK(parse_error_file(R"({"message": "[[[\\\"{)" + std::string(1000, '[') + R"("})").message.size() == 1006);
  CHECK(parse_error_file(std::string(kErrorFileLimit + 1, ' ')).note == "the error file is larger than 1 MiB");
}

constexpr const char* kNoFile = "the error file cannot be read: it is not a regular file";

TEST_CASE("a missing file is nothing, odd ones are a note") {
  test::TempFolder folder;
  CHECK_FALSE(read_error_file(""));
  CHECK_FALSE(read_error_file(folder / "none"));
  CHECK(read_error_file(folder.path().string())->note == kNoFile);
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(read_error_file(folder / "fifo")->note == kNoFile);
  folder.write("error.json", R"({"message": "text", "timestamp": 10})");
  CHECK(read_error_file(folder / "error.json")->message == "text");
  folder.write("big.json", std::string(kErrorFileLimit + 1, ' '));
  CHECK(read_error_file(folder / "big.json")->note == "the error file is larger than 1 MiB");
}

TEST_CASE("a launcher that is itself a worker hands the first failure's file on, with the exit code") {
  CHECK(error_file_for_parent(R"({"message":{"message":"boom","extraInfo":{"timestamp":"10"},"x":1}})", "", 0, 3) ==
        R"({"message":{"errorCode":3,"extraInfo":{"timestamp":"10"},"message":"boom","x":1}})");
  CHECK(error_file_for_parent(R"({"message":"text","timestamp":10})", "", 11, -9) ==
        R"({"message":{"errorCode":-9,"extraInfo":{"timestamp":"11"},"message":"text"}})");
  for (const char* bad : {"", "no json", "[]", "{}", R"({"message":7})"})
    CHECK(error_file_for_parent(bad, "signal 9 (SIGKILL)", 11, -9) ==
          R"x({"message":{"errorCode":-9,"extraInfo":{"timestamp":"11"},"message":"signal 9 (SIGKILL)"}})x");
}

TEST_CASE("a launcher's own error file costs no more stack than any") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(error_file_for_parent(R"({"message":{"message":"boom"},"deep":)" + deep + "}", "exit code 3", 11, 3) ==
        R"({"message":{"errorCode":3,"extraInfo":{"timestamp":"11"},"message":"exit code 3"}})");
}

TEST_CASE("an error file that is too large to be understood is handed on as it is, up to a bound") {
  std::string large = R"({"message":{"message":")" + std::string(kErrorFileLimit - 26, 'x') + R"("}})";
  REQUIRE(large.size() == kErrorFileLimit);
  CHECK(error_file_for_parent(large, "", 0, 3).starts_with(R"({"message":{"errorCode":3,"message":"xxx)"));
  large += "\n\n";
  CHECK(error_file_for_parent(large, "", 0, 3) == large);
  large.resize(kErrorFileCopyLimit, ' ');
  CHECK(error_file_for_parent(large, "", 0, 3) == large);
  large += ' ';
  CHECK(error_file_for_parent(large, "exit code 3", 0, 3).size() < 100);
}

TEST_CASE("an error file in an event is what @record wrote, or torchrun's word for none") {
  CHECK(error_file_json(std::nullopt) == R"({"message":"<NONE>"})");
  CHECK(error_file_json(ErrorFile{"boom", "trace", 10, ""}) ==
        R"({"message":{"message":"boom","extraInfo":{"py_callstack":"trace","timestamp":"10"}}})");
  CHECK(error_file_json(ErrorFile{"boom\xff", "", {}, ""}) == "{\"message\":\"boom\xef\xbf\xbd\"}");
}

}  // namespace dtrain::launcher
