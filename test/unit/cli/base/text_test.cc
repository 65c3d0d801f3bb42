#include "cli/base/text.h"

#include "test/support/catch.h"

namespace dtrain::cli {

TEST_CASE("a slip is recognised, another word is not") {
  const std::vector<std::string> names = {"nproc", "tee", "max-restarts", "role"};
  CHECK(closest("nprco", names) == "nproc");
  CHECK(closest("max_restart", names) == "max-restarts");
  CHECK(closest("rol", names) == "role");
  CHECK(closest("batch-size", names).empty());
  CHECK(closest("", names).empty());
  CHECK(closest("x", {"a"}).empty());
  CHECK(closest(std::string(5000, 'x'), names).empty());
}

TEST_CASE("a word of a name means that name, if no other has it") {
  const std::vector<std::string> names = {"max-restarts", "log-dir", "rdzv-conf", "rdzv-id", "no-python"};
  CHECK(only_with_word("restarts", names) == "max-restarts");
  CHECK(only_with_word("restart", names) == "max-restarts");
  CHECK(only_with_word("dir", names) == "log-dir");
  CHECK(only_with_word("rdzv", names).empty());
  CHECK(only_with_word("starts", names).empty());
  CHECK(only_with_word("no", names).empty());
  CHECK(only_with_word("", names).empty());
}

TEST_CASE("a choice is one of the names, or the error says which was meant") {
  CHECK(one_of("cpu", {"cpu", "gpu"}).ok());
  CHECK(one_of("cgruop", {"cgroup", "pidns"}).error().message == "expected one of cgroup, pidns; did you mean cgroup?");
  CHECK(one_of("x", {"json"}).error().message == "expected json");
}

TEST_CASE("letters change their case, and nothing else does") {
  CHECK(upper("a-z_AZ0\xe4") == "A-Z_AZ0\xe4");
  CHECK(lower("A-Z_az0\xc4") == "a-z_az0\xc4");
}

TEST_CASE("digits are 0 to 9, at least one") {
  CHECK(all_digits("0123456789"));
  for (const char* text : {"", "-1", "1.", " 1", "0x1"}) CHECK_FALSE(all_digits(text));
}

TEST_CASE("split keeps empty parts") {
  using Parts = std::vector<std::string>;
  CHECK(split("a,,b", ',') == Parts{"a", "", "b"});
  CHECK(split("", ',') == Parts{""});
  CHECK(split("a,", ',') == Parts{"a", ""});
}

TEST_CASE("words are quoted as a shell needs it") {
  CHECK(shell_quoted("--lr=0.01") == "--lr=0.01");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("two words") == "'two words'");
  CHECK(shell_quoted("it's $HOME") == "'it'\\''s $HOME'");
}

}  // namespace dtrain::cli
