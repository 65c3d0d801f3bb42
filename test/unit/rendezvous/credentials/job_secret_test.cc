// The token: it survives its text and its file, tells typos, never shows itself, and makes a key for each link.
#include "rendezvous/credentials/job_secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;

namespace {

JobSecret secret_of(std::string_view text) {
  auto secret = JobSecret::parse(text);
  INFO((secret ? "" : secret.error().message));
  REQUIRE(secret.ok());
  return *secret;
}

std::string why_not(const Result<JobSecret>& secret) {
  REQUIRE_FALSE(secret.ok());
  CHECK(secret.error().kind == ErrorKind::usage);
  return secret.error().message;
}

std::string key_text(const JobSecret& secret, const LinkName& link) {
  auto key = secret.key_of(link);
  REQUIRE(key.ok());
  return std::string(key->begin(), key->end());
}

// The bytes 0 to 31.
const std::string kKnown = "dtrain-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-KfiaR";

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("a token survives its text, and two are never the same") {
  auto first = JobSecret::generate(), second = JobSecret::generate();
  REQUIRE((first.ok() && second.ok()));
  CHECK(first->text().size() == 55);
  CHECK_FALSE(*first == *second);
  CHECK(first->text() != second->text());
  CHECK(secret_of(first->text()) == *first);
  CHECK(secret_of(" \n" + first->text() + "\r\n") == *first);
  CHECK(secret_of(kKnown).text() == kKnown);
}

TEST_CASE("what is made of a token stays the same from version to version") {
  const JobSecret secret = secret_of(kKnown);
  auto fingerprint = secret.fingerprint();
  REQUIRE(fingerprint.ok());
  CHECK(*fingerprint == "073c3120");
  std::string hex;
  for (const char byte : key_text(secret, {LinkRole::store, 3, "job"})) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  CHECK(hex == "af2d496f8a6e93252c18bc2510b4c69404d16d621d9ca46001cdaca8f771c3a3");
}

TEST_CASE("every link has a key of its own") {
  const JobSecret secret = secret_of(kKnown);
  std::set<std::string> keys;
  for (const LinkName& link :
       {LinkName{LinkRole::agent, 0, "job"}, LinkName{LinkRole::store, 0, "job"}, LinkName{LinkRole::store, 1, "job"},
        LinkName{LinkRole::store, 11, "job"}, LinkName{LinkRole::store, 1, "1/job"}, LinkName{LinkRole::agent, 0, "jo"},
        LinkName{LinkRole::agent, 0, ""}})
    keys.insert(key_text(secret, link));
  CHECK(keys.size() == 7);
  auto other = JobSecret::generate();
  REQUIRE(other.ok());
  CHECK(key_text(*other, {LinkRole::agent, 0, "job"}) != key_text(secret, {LinkRole::agent, 0, "job"}));
  CHECK(key_text(secret_of(kKnown), {LinkRole::agent, 0, "job"}) == key_text(secret, {LinkRole::agent, 0, "job"}));
}

TEST_CASE("every single typo in a token is told, and no message repeats the token") {
  const std::string letters = "AZaz09-_";
  for (std::size_t at = 0; at < kKnown.size(); ++at) {
    for (const char letter : letters) {
      std::string text = kKnown;
      if (text[at] == letter) continue;
      text[at] = letter;
      CHECK(why_not(JobSecret::parse(text)).find(text.substr(10, 8)) == std::string::npos);
    }
  }
  CHECK(why_not(JobSecret::parse("")) == "not a dtrain token: it is empty; `dtrain token --new` makes one");
  CHECK(why_not(JobSecret::parse("hunter2")).find("begin with dtrain-") != std::string::npos);
  CHECK(why_not(JobSecret::parse(kKnown + "A")).find("56 characters instead of 55") != std::string::npos);
  CHECK(why_not(JobSecret::parse(kKnown.substr(0, 54))).find("54 characters") != std::string::npos);
  std::string strange = kKnown;
  strange[20] = '+';
  CHECK(why_not(JobSecret::parse(strange)).find("character 21") != std::string::npos);
  std::string swapped = kKnown;
  std::swap(swapped[12], swapped[13]);
  CHECK(why_not(JobSecret::parse(swapped)).find("checksum") != std::string::npos);
}

TEST_CASE("a token survives its file, which nobody else can read") {
  test::TempFolder folder;
  const std::string path = folder / "token";
  auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  const mode_t before = ::umask(0);
  auto written = secret->write_new(path);
  ::umask(before);
  REQUIRE(written.ok());
  struct stat facts = {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0600);
  auto read = JobSecret::read(path);
  REQUIRE(read.ok());
  CHECK(*read == *secret);

  auto other = JobSecret::generate();
  REQUIRE(other.ok());
  auto again = other->write_new(path);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().message.find("is there already") != std::string::npos);
  CHECK(*JobSecret::read(path) == *secret);
  REQUIRE(::symlink("elsewhere", (folder / "link").c_str()) == 0);
  CHECK_FALSE(other->write_new(folder / "link").ok());
  CHECK(::access((folder / "elsewhere").c_str(), F_OK) != 0);
}

TEST_CASE("a token is read only from a file that is safe") {
  test::TempFolder folder;
  const std::string path = folder / "token";
  for (const mode_t mode : {0640, 0604, 0660, 0700 | 02}) {
    write_file(path, kKnown, mode);
    CHECK(why_not(JobSecret::read(path)).find("chmod 600") != std::string::npos);
  }
  for (const mode_t mode : {0600, 0400}) {
    write_file(path, kKnown + "\n", mode);
    CHECK(JobSecret::read(path).ok());
    ::unlink(path.c_str());
  }
  write_file(path, kKnown + std::string(5000, '\n'), 0600);
  CHECK(why_not(JobSecret::read(path)).find("too long") != std::string::npos);
  write_file(path, "", 0600);
  CHECK(why_not(JobSecret::read(path)).find("empty") != std::string::npos);
  CHECK(why_not(JobSecret::read(folder.path().string())).find("not a regular file") != std::string::npos);
  CHECK(why_not(JobSecret::read(folder / "none")).find("No such file") != std::string::npos);
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(why_not(JobSecret::read(folder / "fifo")).find("not a regular file") != std::string::npos);
  if (::geteuid() == 0) {
    write_file(path, kKnown, 0600);
    REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
    CHECK(why_not(JobSecret::read(path)).find("belongs to user 12345") != std::string::npos);
  }
}

TEST_CASE("a secret's memory is in no core dump") {
  auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  // The flags of every mapping of this process: one with "dd" (do not dump) is the secret's.
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  int kept_out = 0;
  while (std::getline(maps, line)) kept_out += line.starts_with("VmFlags:") && line.find(" dd") != std::string::npos;
  CHECK(kept_out >= 1);
}
