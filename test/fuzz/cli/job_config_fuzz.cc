// Fuzzes the file of --config: whatever it has, there is one line that refuses it, or values that a command line could
// have, and a plan or one line about one of them.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/config/config_file.h"
#include "cli/config/take_config.h"
#include "cli/engines/sent_words.h"
#include "cli/resolve/resolve.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

constexpr const char* kFile = "job.yaml";

Host host_with_file(const std::string& text) {
  Host host;
  host.env["PATH"] = "/bin";
  host.cpus = 8;
  host.read_text = [text](const std::string& path) {
    return path == kFile ? Result<std::string>(text) : Result<std::string>(Error{ErrorKind::usage, "no such file"});
  };
  host.probe = [](const std::string& path) {
    FileFacts facts{FileFacts::Kind::file, true, true, true, true, "#!/bin/sh\n"};
    if (path.ends_with('/') || path == ".") facts.kind = FileFacts::Kind::folder;
    return facts;
  };
  return host;
}

void check_values(const ConfigFile& file) {
  for (const auto& value : file.values) {
    if (!value) continue;
    DT_CHECK(value->origin == Origin::file, "it comes from the file");
    DT_CHECK(value->where.starts_with("job.yaml:"), "it has a line");
    DT_CHECK(value->text.find('\0') == std::string::npos, "it can be an argument");
    check_one_line(value->where);
  }
  for (const std::string& note : file.notes) check_one_line(note);
}

// What is sent to another node is understood there.
void check_sent(const RawOptions& raw) {
  const auto there = parse(words_to_send(raw));
  DT_CHECK(there.ok(), "what is sent can be read");
  for (const Flag& row : flags())
    if (raw[row.id] && !places_job(row.id)) DT_CHECK((*there)[row.id]->text == raw[row.id]->text, "the same value");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = read_config(text, kFile);
  if (!file) {
    DT_CHECK(file.error().kind == ErrorKind::usage, "a wrong file is a usage error");
    check_one_line(file.error().message);
    return 0;
  }
  check_values(*file);
  const Host host = host_with_file(text);
  auto raw = parse(std::vector<std::string>{"--config=job.yaml", "/bin/true"});
  const auto notes = take_config(*raw, host);
  if (!notes) {
    check_one_line(notes.error().message);
    return 0;
  }
  check_sent(*raw);
  const auto plan = resolve(*raw, host);
  if (!plan) check_one_line(plan.error().message);
  return 0;
}
