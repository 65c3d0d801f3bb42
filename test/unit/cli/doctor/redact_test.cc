#include "cli/doctor/redact.h"

#include <random>
#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

std::string in_value(const std::string& text) { return redacted("DTRAIN_X", text); }

std::string random_text(std::mt19937& random, std::string_view alphabet, std::size_t longest) {
  std::string text;
  for (std::size_t left = 1 + random() % longest; left > 0; --left) text += alphabet[random() % alphabet.size()];
  return text;
}

}  // namespace

TEST_CASE("a variable with a secret's name is hidden as a whole") {
  for (const char* name : {"NCCL_API_KEY", "TORCH_TOKEN", "SLURM_JWT", "DTRAIN_PASSWORD", "PYTHON_SECRETS", "pet_auth",
                           "DTRAIN_DBPASS", "DTRAIN_DB_PWD", "DTRAIN_PW", "AWS_CREDS"})
    CHECK(redacted(name, "hunter2") == "<redacted>");
  CHECK(redacted("NCCL_DEBUG", "INFO") == "INFO");
  CHECK(redacted("PWD", "/home") == "/home");
  CHECK(redacted("TORCH_TOKEN", "") == "");
}

TEST_CASE("what is no secret stays readable") {
  for (const char* text :
       {"INFO", "eth0,ib0", "node[1-4,7]", "10.0.0.1:29400", "backend:native,expandable_segments:True",
        "timeout=5,is_host=true", "tcp://host:29400", "git@host", "2(x3),1", "file:///tmp/x?a=1&b=2", "sk-learn",
        "train.py --lr 3e-4 --data /home/key/set", "a b\nc", "key", "token="})
    CHECK(in_value(text) == text);
  for (const char* path : {"/home/key/bin:/usr/bin", "/usr/bin:/opt/python@3.11/bin", "/opt/token:/usr/bin"})
    CHECK(redacted("PATH", path) == path);
}

TEST_CASE("users and passwords are hidden up to the last @ of the word") {
  CHECK(in_value("x dtrain-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-KfiaR y") == "x <redacted> y");
  CHECK(in_value("/tmp/dtrain-abcdefgh/job") == "/tmp/dtrain-abcdefgh/job");
  CHECK(in_value("https://me:hunter2@host/path") == "https://<redacted>@host/path");
  CHECK(in_value("a tcp://u:p/w@d@h:1, b://x@y") == "a tcp://<redacted>@h:1, b://<redacted>@y");
  CHECK(in_value("https://me:a,pw@h x") == "https://<redacted>@h x");
  CHECK(in_value("me:pw@proxy:3128") == "<redacted>@proxy:3128");
  CHECK(in_value("--proxy=me:pw@proxy:3128") == "--proxy=<redacted>@proxy:3128");
  CHECK(in_value("a:b@x,https://c:d@h") == "<redacted>@h");
}

TEST_CASE("what follows a secret's name inside a value is hidden") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"https://host/?a=1&access_token=hunter2&b=2", "https://host/?a=1&access_token=<redacted>&b=2"},
      {"read_timeout=5,password=hunter2", "read_timeout=5,password=<redacted>"},
      {"password=hun,ter&2,b=1", "password=<redacted>,b=1"},
      {"train.py --wandb-token abc --lr 1", "train.py --wandb-token <redacted> --lr 1"},
      {"train.py --use-auth --token abc", "train.py --use-auth <redacted> <redacted>"},
      {R"({"api_key": "a b", "x": 1})", R"({"api_key": "<redacted>", "x": 1})"},
      {R"({"password":"a\"b","user":"me"})", R"({"password":"<redacted>","user":"me"})"},
      {R"("{\"apiKey\": \"a b\"}")", R"("{\"apiKey\": \"<redacted>)"},
      {R"(["--token", "abc"])", R"(["--token", "<redacted>"])"},
      {R"({"tokens": ["a", "b"]})", R"({"tokens": <redacted>)"},
      {"--password='a b'\"c\" --lr 1", "--password='<redacted> --lr 1"},
      {"Authorization: Basic YTpi other", "Authorization: <redacted>"},
      {"--header Bearer abc", "--header Bearer <redacted>"},
      {"token: Bearer abc", "token: <redacted> <redacted>"},
      {"password: hunter2", "password: <redacted>"},
      {"password\n  hunter2\nx", "password\n  <redacted>\nx"},
      {"--conf spark.authenticate.secret=hunter2 --conf 'spark.ssl.keyPassword=hunter2' --master spark://a:1",
       "--conf spark.authenticate.secret=<redacted> --conf 'spark.ssl.keyPassword=<redacted> --master spark://a:1"},
      {"my_pwd=x y", "my_pwd=<redacted> y"}};
  for (const auto& [text, expected] : cases) CHECK(in_value(text) == expected);
}

TEST_CASE("tokens of well-known services are hidden wherever they stand") {
  CHECK(in_value("hf_0123456789abcd") == "<redacted>");
  CHECK(in_value("a,sk-proj-0123456789;b") == "a,<redacted>;b");
  CHECK(in_value("x ghp_0123456789abcdef y") == "x <redacted> y");
  CHECK(in_value("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0") == "<redacted>");
  CHECK(in_value("-----BEGIN X-----\nabc") == "<redacted>");
}

// Any secret, in any of these places, with anything before and after it.
TEST_CASE("a long value is read once, however many names and tokens are in it") {
  const auto repeated = [](const std::string& text) {
    std::string all;
    for (int i = 0; i < 500'000; ++i) all += text;
    return all;
  };
  CHECK(in_value(repeated("KEY:")) == "KEY:<redacted>");
  CHECK(in_value(repeated("hf_")) == "<redacted>");
}

TEST_CASE("no secret survives, whatever stands around it") {
  constexpr std::string_view kSecretBytes = "abcXYZ019/+=@:,;&?%#._-~!$^*";
  constexpr std::string_view kAround = "ab1 =:,;&?\"'\\@/{}[]\n\t-_<>";
  const std::vector<std::pair<std::string, std::string>> places = {
      {"--api-token ", " "}, {"--password=", " "},           {"\"secret\": \"", "\""},         {"https://me:", "@host"},
      {" x:", "@y:1 "},      {"Authorization: Bearer ", ""}, {"\\\"passwd\\\": \\\"", "\\\""}, {"Db_Pass => '", "'"}};
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    // The marks make it unlike all else; a bare ",name=" inside an unquoted value would begin another value.
    std::string secret = "q" + random_text(random, kSecretBytes, 12) + "Q";
    const auto& [before, after] = places[random() % places.size()];
    bool quoted = after.find_first_of("\"'") != std::string::npos;
    if (!quoted)
      for (char& c : secret)
        if (c == '=') c = '+';
    std::string text =
        random_text(random, kAround, 12) + " " + before + secret + after + random_text(random, kAround, 12);
    std::string shown = in_value(text);
    INFO(text << "\n-> " << shown);
    REQUIRE(shown.find(secret) == std::string::npos);
    REQUIRE(shown.find(secret.substr(0, secret.size() / 2)) == std::string::npos);
    REQUIRE(shown.find(secret.substr(secret.size() / 2)) == std::string::npos);
  }
}

}  // namespace dtrain::cli
