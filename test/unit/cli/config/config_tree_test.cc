// What may be in a config file, and what is refused with its line.
#include "cli/config/config_tree.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;
using Kind = ConfigValue::Kind;

namespace {

ConfigValue tree(const std::string& text) {
  auto read = read_config_tree(text, "job.yaml");
  INFO((read ? "" : read.error().message));
  REQUIRE(read.ok());
  return *read;
}

std::string refused_tree(const std::string& text) {
  const auto read = read_config_tree(text, "job.yaml");
  if (read) return "fine";
  CHECK(read.error().kind == ErrorKind::usage);
  CHECK(read.error().message.find('\n') == std::string::npos);
  return read.error().message;
}

}  // namespace

TEST_CASE("YAML and JSON give the same tree, with lines") {
  const ConfigValue yaml = tree("# a job\nnproc: 2\nbackend:\n  type: 'ray'\n  list: [a, ~]\n");
  const ConfigValue json = tree("{\n\t\"nproc\":2,\n\"backend\": {\"type\":\"ray\", \"list\": [\"a\", null]}}");
  for (const ConfigValue& root : {yaml, json}) {
    REQUIRE(root.kind == Kind::map);
    REQUIRE(root.items.size() == 2);
    CHECK(root.find("nproc")->kind == Kind::word);
    CHECK(root.find("nproc")->text == "2");
    CHECK(root.find("nproc")->line == 2);
    CHECK(root.find("backend")->line == 3);
    CHECK(root.find("backend")->find("type")->kind == Kind::text);
    CHECK(root.find("backend")->find("list")->items[1].kind == Kind::null);
    CHECK(root.find("none") == nullptr);
  }
  CHECK(yaml.find("backend")->find("type")->line == 4);
}

TEST_CASE("an anchor stands for its value, but not within itself") {
  const ConfigValue root = tree("a: &x {b: 1}\nc: *x\nd: &y hi\ne: *y\n");
  CHECK(root.find("c")->find("b")->text == "1");
  CHECK(root.find("c")->line == 2);
  CHECK(root.find("e")->text == "hi");
  CHECK_THAT(refused_tree("a: &x\n  b: *x\n"), Contains("job.yaml:2: the anchor &x is within itself"));
  CHECK_THAT(refused_tree("a: *x\n"), Contains("job.yaml:1: there is no anchor &x above"));
  std::string laughs = "a0: &a0 [1,2,3,4,5,6,7,8,9,10]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    laughs += name + ": &" + name + " [" + before;
    for (int j = 0; j < 9; ++j) laughs += "," + before;
    laughs += "]\n";
  }
  CHECK_THAT(refused_tree(laughs), Contains("more than 100000 values"));
}

TEST_CASE("what is no config is refused with its line") {
  CHECK(refused_tree("a: 1\nb: 2\na: 3\n") == "job.yaml:3: the key a is in line 1 too; remove one");
  CHECK(refused_tree("a: 1\n---\nb: 2\n") == "job.yaml:2: a second document begins here; a config is one document");
  CHECK_THAT(refused_tree("a: [1\nb: 2\n"), Contains("job.yaml:1: this is no YAML: while parsing a flow"));
  CHECK_THAT(refused_tree("a: 1\n b: 2\n"), Contains("job.yaml:2: this is no YAML"));
  CHECK_THAT(refused_tree("a: \"x\n"), Contains("this is no YAML"));
  CHECK(refused_tree("a:\n\tb: 1\n") == "job.yaml:2: the line begins with a tab; YAML wants blanks");
  CHECK(refused_tree("a:\r\n  \tb: 1\r\n") == "job.yaml:2: the line begins with a tab; YAML wants blanks");
  CHECK_THAT(refused_tree("a: @\t\n"), Contains("this is no YAML"));
  CHECK(refused_tree("? [a]\n: 1\n") == "job.yaml:1: a key must be a word");
  CHECK(refused_tree("a: !!binary x\n") ==
        "job.yaml:1: the tag tag:yaml.org,2002:binary means nothing here; remove it");
  CHECK(refused_tree("a: !mine {}\n") == "job.yaml:1: the tag !mine means nothing here; remove it");
  CHECK(refused_tree(std::string("a: 1\0b", 6)) == "job.yaml: it has a byte of 0, and is no text");
  CHECK(refused_tree("a: \"x\\0y\"\n") == "job.yaml:1: a value has a byte of 0");
  CHECK(refused_tree("a: \xff\n") == "job.yaml: it is not UTF-8");
  CHECK(refused_tree("\xff\xfe"
                     "a") == "job.yaml: it is not UTF-8");
  CHECK(refused_tree(std::string((1 << 20) + 1, ' ')) == "job.yaml: a config has at most 1 MiB");
  CHECK(refused_tree(std::string(33, '[') + std::string(33, ']')) == "job.yaml:1: nested deeper than 32 levels");
  CHECK(refused_tree(std::string(1 << 20, '[')) == "job.yaml:1: nested deeper than 32 levels");
}

TEST_CASE("a tag may say that a word is a text") {
  CHECK(tree("!!str 5").kind == Kind::text);
  CHECK(tree("! 5").kind == Kind::text);
  CHECK(tree("!!int 5").kind == Kind::word);
  CHECK(tree("\"~\"").kind == Kind::text);
  for (const char* null : {"", "~", "null", "Null", "NULL", "# nothing"}) CHECK(tree(null).kind == Kind::null);
  CHECK(tree("{}").says_nothing());
  CHECK(tree("~").says_nothing());
  CHECK_FALSE(tree("''").says_nothing());
}
