#include "cli/parse/parse.h"

#include <cstdlib>

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

RawOptions parsed(const Words& words) {
  auto raw = parse(words);
  INFO((raw.ok() ? "" : raw.error().message));
  REQUIRE(raw.ok());
  return *raw;
}

std::string value(const Words& words, FlagId id) {
  RawOptions raw = parsed(words);
  return raw[id] ? raw[id]->text : "<unset>";
}

std::string error(const Words& words) {
  auto raw = parse(words);
  if (raw.ok()) return "<none>";
  CHECK(raw.error().kind == ErrorKind::usage);
  CHECK(raw.error().message.find('\n') == std::string::npos);
  return raw.error().message;
}

}  // namespace

TEST_CASE("a flag's value may stand in every way that argparse knows") {
  struct Row {
    Words words;
    FlagId id;
    std::string text;
  };
  const Row rows[] = {
      {{"--nproc", "2"}, FlagId::nproc, "2"},
      {{"-np", "2"}, FlagId::num_proc, "2"},
      {{"-np=2"}, FlagId::num_proc, "2"},
      {{"--nproc=2"}, FlagId::nproc, "2"},
      {{"--nproc-per-node=2"}, FlagId::nproc, "2"},
      {{"--nproc_per_node", "2"}, FlagId::nproc, "2"},
      {{"--nproc_per-node", "2"}, FlagId::nproc, "2"},
      {{"--nproc-p=2"}, FlagId::nproc, "2"},
      {{"--nproc=1", "--nproc-per-node=2"}, FlagId::nproc, "2"},
      {{"--nproc="}, FlagId::nproc, ""},
      {{"--nproc", ""}, FlagId::nproc, ""},
      {{"--nproc", "-1"}, FlagId::nproc, "-1"},
      {{"--redirect=3"}, FlagId::redirects, "3"},
      {{"-r", "3"}, FlagId::redirects, "3"},
      {{"-r3"}, FlagId::redirects, "3"},
      {{"-r=3"}, FlagId::redirects, "3"},
      {{"-mt1"}, FlagId::tee, "1"},
      {{"-mt1"}, FlagId::module, "1"},
      {{"-m"}, FlagId::module, "1"},
      {{"--no_python"}, FlagId::no_python, "1"},
      {{"--no-p"}, FlagId::no_python, "1"},
      {{"--log-dir=a=b"}, FlagId::log_dir, "a=b"},
      {{"--log-dir", "-"}, FlagId::log_dir, "-"},
      {{"--log-dir=--x"}, FlagId::log_dir, "--x"},
      {{"--run-id", "x"}, FlagId::run_id, "x"},
      {{"-h"}, FlagId::help, "1"},
      {{"--role", "a\nb"}, FlagId::role, "a\nb"},
  };
  for (const Row& row : rows) {
    INFO(row.words[0]);
    CHECK(value(row.words, row.id) == row.text);
  }
}

TEST_CASE("the first word that is no flag is the program, and the rest is its own") {
  CHECK(parsed({"--nproc", "2", "./train", "--help", "--nproc", "9", "--", "-t"}).command ==
        Words{"./train", "--help", "--nproc", "9", "--", "-t"});
  CHECK(value({"--nproc", "2", "./train", "--nproc", "9"}, FlagId::nproc) == "2");
  CHECK(value({"./train", "--help"}, FlagId::help) == "<unset>");
  CHECK(parsed({"--nproc=2", "--", "./train", "-x"}).command == Words{"./train", "-x"});
  CHECK(parsed({"--", "--odd-name"}).command == Words{"--odd-name"});
  CHECK(parsed({"--", "--", "x"}).command == Words{"--", "x"});
  CHECK(parsed({"-m", "pkg.train", "-m"}).command == Words{"pkg.train", "-m"});
  CHECK(parsed({"-"}).command == Words{"-"});
  CHECK(parsed({""}).command == Words{""});
  CHECK(parsed({"--nproc", "2"}).command.empty());
  CHECK(parsed({}).command.empty());
}

TEST_CASE("whether -- ended the flags is known") {
  CHECK(parsed({"--nproc=2", "--", "train", "--nproc=2"}).ended);
  CHECK_FALSE(parsed({"--nproc=2", "train", "--", "--nproc=2"}).ended);
}

TEST_CASE("each mistake is one line that names it") {
  CHECK(error({"--nprox", "2"}) == "unknown flag --nprox; did you mean --nproc?");
  CHECK(error({"--nprco=2"}) == "unknown flag --nprco; did you mean --nproc?");
  CHECK(error({"--max_restart_s", "2"}) == "unknown flag --max_restart_s; did you mean --max-restarts?");
  CHECK(error({"--lr=0.01", "./train"}) ==
        "unknown flag --lr; `dtrain run --help=all` lists them (flags of the program go after its name)");
  for (const Words& words : {Words{"-n", "4"}, {"-n4"}, {"-np4"}})
    CHECK(error(words) == "unknown flag " + words[0] + "; did you mean --nproc?");
  CHECK(error({"--restarts", "3"}) == "unknown flag --restarts; did you mean --max-restarts?");
  CHECK(error({"-nx"}) == "unknown flag -nx; `dtrain run --help=all` lists them");
  CHECK(error({"-x"}) == "unknown flag -x; `dtrain run --help=all` lists them");
  CHECK(error({"-mx"}) == "unknown flag -mx; `dtrain run --help=all` lists them");
  CHECK(error({"-1"}) == "unknown flag -1; `dtrain run --help=all` lists them");
  CHECK(error({"--te"}) == "--te needs a value: --tee STREAMS");
  CHECK(error({"--nproc"}) == "--nproc needs a value: --nproc N");
  CHECK(error({"--log_dir", "--nproc"}) == "--log_dir needs a value: --log-dir DIR");
  CHECK(error({"-t"}) == "-t needs a value: --tee STREAMS");
  CHECK(error({"--no-python=1"}) == "--no-python takes no value (--no-python=1)");
  CHECK(error({"--r=1"}).starts_with(
      "--r could mean --replica-groups, --role, --rdzv-id, --resources-per-worker, --rdzv-backend, "));
  CHECK(error({"--bad\nline"}).starts_with("unknown flag --bad\\x0aline"));
}

// Where the library below us reads words in its own way.
TEST_CASE("a value is taken as it is, whatever it looks like") {
  for (const char* text : {"[1,2]", "{}",  "{a}",  "%%",  "a,b",   "@file",    "/nproc", "/n:2",        "++",
                           "=3",    "a b", "a\nb", " a ", "'x y'", "\"q\"",    "true",   "r\xc3\xb4le", "\xff",
                           "-",     "-1",  "-.5",  "- x", "--x y", "--zz=b c", ""}) {
    INFO(text);
    CHECK(value({"--role", text, "train"}, FlagId::role) == text);
    CHECK(value({std::string("--role=") + text, "train"}, FlagId::role) == text);
    CHECK(parsed({"--role", text, "train"}).command == Words{"train"});
  }
  for (const char* text :
       {"--", "-x", "--nproc", "--nproc=3", "---", "-1x", "-1.", "-1e5", "-t y", "--tee=3 x", "--te=3 x"}) {
    INFO(text);
    CHECK(value({std::string("--role=") + text, "train"}, FlagId::role) == text);
    CHECK(error({"--role", text, "train"}) == "--role needs a value: --role NAME");
  }
  CHECK(value({"-t-1"}, FlagId::tee) == "-1");
  CHECK(value({"-t--"}, FlagId::tee) == "--");
  CHECK(value({"-t==3"}, FlagId::tee) == "=3");
}

TEST_CASE("as torchrun only its own names may be shortened") {
  auto as_torchrun = [](const Words& words) { return parse(words, CalledAs::torchrun); };
  struct Row {
    const char* word;
    FlagId id;
  };
  // Each is ambiguous, or another flag, as dtrain run.
  for (const Row& row : {Row{"--re=3", FlagId::redirects}, Row{"--t=3", FlagId::tee}, Row{"--run", FlagId::run_path},
                         Row{"--logs=default", FlagId::logs_specs}, Row{"--print=bash", FlagId::print_completion}}) {
    INFO(row.word);
    auto raw = as_torchrun({row.word, "train"});
    REQUIRE(raw.ok());
    CHECK((*raw)[row.id]);
    CHECK(raw->as_torchrun);
  }
  CHECK(error({"--re=3", "train"}) ==
        "--re could mean --replica-groups, --resources-per-worker, --requeue, --redirects, --report; write more of its "
        "name");
  CHECK(error({"--t=3", "train"}) ==
        "--t could mean --topology, --token-file, --tls-ca, --tls-cert, --tls-key, --tee, --timestamps; write more of "
        "its name");
  // Names that torchrun does not have are known in full only.
  CHECK(as_torchrun({"--contain=cgroup", "train"}).ok());
  CHECK(as_torchrun({"--nproc=2", "train"}).ok());
  CHECK_FALSE(as_torchrun({"--contai=cgroup", "train"}).ok());
  CHECK(as_torchrun({"--r=1", "t"}).error().message ==
        "--r could mean --role, --rdzv-id, --rdzv-backend, --rdzv-endpoint, --rdzv-conf, --run-path, --redirects; "
        "write more of its name");
}

TEST_CASE("as torchrun the -- that stands right after the program is dropped, as argparse does") {
  auto command = [](const Words& words, CalledAs called) { return parse(words, called)->command; };
  CHECK(command({"t.py", "--", "x"}, CalledAs::torchrun) == Words{"t.py", "x"});
  CHECK(command({"t.py", "--"}, CalledAs::launch) == Words{"t.py"});
  CHECK(command({"t.py", "--", "--", "x"}, CalledAs::torchrun) == Words{"t.py", "--", "x"});
  CHECK(command({"--", "t.py", "--", "x"}, CalledAs::torchrun) == Words{"t.py", "--", "x"});
  CHECK(command({"t.py", "a", "--", "x"}, CalledAs::torchrun) == Words{"t.py", "a", "--", "x"});
  CHECK(command({"t.py", "--", "x"}, CalledAs::dtrain) == Words{"t.py", "--", "x"});
}

TEST_CASE("an empty value does not take the next word") {
  for (const Words& words : {Words{"--role=", "train", "x"}, Words{"--role", "", "train", "x"}}) {
    CHECK(value(words, FlagId::role).empty());
    CHECK(parsed(words).command == Words{"train", "x"});
  }
  CHECK(value({"-t=", "train"}, FlagId::tee).empty());
  CHECK(parsed({"-t=", "train"}).command == Words{"train"});
}

TEST_CASE("the program's words are never read") {
  const Words program = {"train", "[1,2]", "", "--tee", "--", "-t", "a\nb", "@file", "--config=x", "-h", "\xff", "--"};
  CHECK(parsed(program).command == program);
  Words words = {"-mt3", "--"};
  words.insert(words.end(), program.begin(), program.end());
  CHECK(parsed(words).command == program);
  CHECK(value(words, FlagId::help) == "<unset>");
  for (const char* odd : {"/nproc", "/n:2", "@file", "++", "{}", "--"}) {
    INFO(odd);
    CHECK(parsed({"--nproc", "2", "--", odd, "x"}).command == Words{odd, "x"});
  }
  for (const char* odd : {"/nproc", "@file", "++", "{}", "%%", " "})
    CHECK(parsed({odd, "x"}).command == Words{odd, "x"});
  CHECK(parsed({"-m", "--"}).command.empty());
}

TEST_CASE("a switch takes no value, not even true") {
  for (const char* text : {"", "1", "true", "false", "{}"}) {
    std::string word = std::string("--no-python=") + text;
    CHECK(error({word}) == "--no-python takes no value (" + word + ")");
  }
  CHECK(error({"-m=1"}) == "unknown flag -m=1; `dtrain run --help=all` lists them");
  CHECK(value({"--quiet", "--quiet"}, FlagId::quiet) == "1");
}

TEST_CASE("words that only look like flags of ours are unknown, not the program") {
  for (const char* word : {"---", "---x", "--=x", "- x", "-\xff", "--\xff", "--configs", "--configs=x", "--help-all"}) {
    INFO(word);
    CHECK(error({word, "train"}).starts_with("unknown flag "));
  }
}

TEST_CASE("the library below reads no variables of its own") {
  setenv("DTRAIN_ROLE", "x", 1);
  setenv("ROLE", "x", 1);
  CHECK(value({"train"}, FlagId::role) == "<unset>");
  unsetenv("DTRAIN_ROLE");
  unsetenv("ROLE");
}

TEST_CASE("a value remembers how its flag was typed") {
  CHECK(parsed({"--nproc_per_node=2"})[FlagId::nproc]->where == "--nproc_per_node");
  CHECK(parsed({"-t3"})[FlagId::tee]->where == "-t");
  RawOptions twice = parsed({"--nproc=2", "--nproc-per-node", "3", "train", "--nproc=4"});
  CHECK(twice[FlagId::nproc]->where == "--nproc-per-node");
  CHECK(twice[FlagId::nproc]->text == "3");
}

}  // namespace dtrain::cli
