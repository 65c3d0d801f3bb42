// Credentials of a cache: taken from a config or a file of its own, and never shown.
#include "cli/config/config_credentials.h"

#include <nlohmann/json.hpp>

#include "cli/config/config_file.h"
#include "cli/config/take_config.h"
#include "cli/engines/hosts.h"
#include "cli/engines/sent_words.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;
using SaidJson = nlohmann::json;

namespace {

constexpr const char* kLudwigMap =
    "s3:\n  client_kwargs:\n    aws_access_key_id: '1'\n    aws_secret_access_key: hunter2\n    region_name: eu-1\n";
constexpr const char* kInConfig =
    "backend:\n  cache_dir: s3://bucket/cache/\n  cache_credentials: {s3: {client_kwargs: {aws_access_key_id: 1, "
    "aws_secret_access_key: hunter2, aws_session_token: ~, endpoint_url: 'http://[::1]:9000'}}}\ndataset: {input: a}\n";
constexpr const char* kByPath =
    "backend: {cache_dir: 's3://b/c', cache_credentials: ./keys.yaml}\ndataset: {input: a}\n";

std::string refused_credentials(const std::string& map) {
  const auto read = read_config("backend:\n  cache_dir: s3://b/c\n  cache_credentials: " + map + "\n", "job.yaml");
  return read ? "fine" : read.error().message;
}

Host host_with(std::map<std::string, std::string> files, unsigned mode) {
  Host host = test_host();
  host.read_text = [files](const std::string& path) {
    const auto found = files.find(path);
    return found != files.end() ? Result<std::string>(found->second)
                                : Result<std::string>(Error{ErrorKind::usage, "the file cannot be read: no such file"});
  };
  host.probe = [probe = host.probe, mode](const std::string& path) {
    FileFacts facts = probe(path);
    facts.mode = mode;
    return facts;
  };
  return host;
}

struct TakenCredentials {
  std::string text;
  std::vector<std::string> notes;
  RawOptions raw;
};

TakenCredentials credentials_taken(const Host& host) {
  auto raw = parse(std::vector<std::string>{"--config=job.yaml", "true"});
  REQUIRE(raw.ok());
  auto notes = take_config(*raw, host);
  INFO((notes ? "" : notes.error().message));
  REQUIRE(notes.ok());
  return {raw->credentials, std::move(*notes), std::move(*raw)};
}

}  // namespace

TEST_CASE("credentials have the names of the store's variables, whether the config has them or a file") {
  const auto taken = credentials_taken(host_with({{"job.yaml", kInConfig}}, 0600));
  CHECK(SaidJson::parse(taken.text) == SaidJson::parse(R"({"AWS_ACCESS_KEY_ID": "1",
        "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_ENDPOINT_URL": "http://[::1]:9000"})"));
  CHECK(taken.notes.empty());
  const auto of_file = credentials_taken(host_with({{"job.yaml", kByPath}, {"./keys.yaml", kLudwigMap}}, 0600));
  CHECK(SaidJson::parse(of_file.text) == SaidJson::parse(R"({"AWS_ACCESS_KEY_ID": "1",
        "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_REGION": "eu-1"})"));
  CHECK(SaidJson::parse(*of_file.raw.data)["cache_dir"] == "s3://b/c");
  CHECK_THAT(*of_file.raw.data, !Contains("hunter2"));
}

TEST_CASE("a file with credentials that others may read is warned about") {
  const auto taken = credentials_taken(host_with({{"job.yaml", kInConfig}}, 0644));
  REQUIRE(taken.notes.size() == 1);
  CHECK(taken.notes[0] == "job.yaml has credentials and the mode 0644, so others may read them: chmod 600 job.yaml");
  const auto of_file = credentials_taken(host_with({{"job.yaml", kByPath}, {"./keys.yaml", kLudwigMap}}, 0640));
  REQUIRE(of_file.notes.size() == 1);
  CHECK_THAT(of_file.notes[0], Contains("./keys.yaml has credentials and the mode 0640"));
  CHECK(credentials_taken(host_with({{"job.yaml", "nproc: 1\n"}}, 0644)).notes.empty());
}

TEST_CASE("credentials go to other nodes beside their words, and not in these") {
  Host host = host_with({{"job.yaml", kInConfig}}, 0600);
  const auto taken = credentials_taken(host);
  for (const std::string& word : words_to_send(taken.raw)) CHECK_THAT(word, !Contains("hunter2"));
  CHECK_FALSE(environment_to_send(host, "").contains("DTRAIN_STORE_CREDENTIALS"));
  host.store_credentials = taken.text;
  CHECK(environment_to_send(host, "").at("DTRAIN_STORE_CREDENTIALS") == taken.text);
}

TEST_CASE("credentials for a cache in a folder have no effect, and a note says so") {
  const auto read =
      read_config("backend:\n  cache_dir: /cache\n  cache_credentials: {gs: {token: /key.json}}\ndataset: {input: a}\n",
                  "job.yaml");
  REQUIRE(read.ok());
  REQUIRE(read->notes.size() == 1);
  CHECK(read->notes[0] ==
        "no effect: job.yaml:3: backend.cache_credentials is for a cache_dir in an object store, such as "
        "s3://BUCKET/cache");
}

TEST_CASE("credentials that cannot be are refused, and never shown") {
  struct Row {
    const char* map;
    const char* message;
  };
  const Row row = GENERATE(
      Row{"''", ": expected a map, or the path of a file with it"},
      Row{"[hunter2]", ": expected a map, such as s3: {...}"}, Row{"{s3: hunter2}", ".s3: expected a map of keys"},
      Row{"{s4: {a: hunter2}}", ".s4: unknown key; did you mean s3?"},
      Row{"{azure: {a: hunter2}}", ".azure: unknown key; the keys here are s3, gs"},
      Row{"{s3: {aws_access_key_id: hunter2}}", ".s3.aws_access_key_id: unknown key; the keys here are client_kwargs"},
      Row{"{s3: {client_kwargs: {aws_secret_key: hunter2}}}",
          ".s3.client_kwargs.aws_secret_key: unknown key; the keys here are aws_access_key_id, aws_secret_access_key, "
          "aws_session_token, endpoint_url, region_name"},
      Row{"{s3: {client_kwargs: {aws_secret_access_kee: hunter2}}}",
          ".s3.client_kwargs.aws_secret_access_kee: unknown key; did you mean aws_secret_access_key?"},
      Row{"{s3: {client_kwargs: {aws_secret_access_key: [hunter2]}}}",
          ".s3.client_kwargs.aws_secret_access_key: expected one word"},
      Row{"{s3: {client_kwargs: {aws_secret_access_key: hunter2}}}",
          ": aws_access_key_id and aws_secret_access_key belong together; give both or none"},
      Row{"{s3: {client_kwargs: {aws_session_token: hunter2}}}",
          ": aws_session_token is for a key; give aws_access_key_id too"},
      Row{"{s3: {client_kwargs: {endpoint_url: 'hunter2:9000'}}}",
          ".s3.client_kwargs.endpoint_url: expected https://HOST or http://HOST:PORT, and nothing more"},
      Row{"{s3: {client_kwargs: {endpoint_url: 'http://hunter2:9000/path'}}}",
          ".s3.client_kwargs.endpoint_url: expected https://HOST or http://HOST:PORT, and nothing more"},
      Row{"{gs: {endpoint_url: 'http://'}}",
          ".gs.endpoint_url: expected https://HOST or http://HOST:PORT, and nothing more"});
  const std::string message = refused_credentials(row.map);
  CHECK(message == std::string("job.yaml:3: backend.cache_credentials") + row.message);
  CHECK(refused_credentials("{}") == "fine");
  CHECK(refused_credentials("{s3: {client_kwargs: {}}}") == "fine");
}

TEST_CASE("a file of credentials that cannot be read is an error of its key") {
  const auto why = [](std::map<std::string, std::string> files) {
    files["job.yaml"] = kByPath;
    auto raw = parse(std::vector<std::string>{"--config=job.yaml", "true"});
    REQUIRE(raw.ok());
    const auto notes = take_config(*raw, host_with(std::move(files), 0600));
    return notes ? "fine" : notes.error().message;
  };
  CHECK(why({}) == "job.yaml:1: backend.cache_credentials: the file cannot be read: no such file");
  CHECK(why({{"./keys.yaml", "s3: hunter2\n"}}) == "./keys.yaml:1: s3: expected a map of keys");
  CHECK(why({{"./keys.yaml", "hunter2\n"}}) == "./keys.yaml: expected a map, such as s3: {...}");
  CHECK_THAT(why({{"./keys.yaml", "s3: {a: hunter2, a: hunter2}\n"}}), !Contains("hunter2"));
}
