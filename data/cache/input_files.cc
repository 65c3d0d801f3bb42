// Tested by test/unit/data/cache/input_files_test.cc.
#include "data/cache/input_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

#include "data/cache/cache_error.h"
#include "data/cache/posix_files.h"
#include "data/cache/sha256.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigestBuffer = std::size_t{1} << 20;
constexpr std::int64_t kNanos = 1'000'000'000;

[[noreturn]] void refuse_input(const std::string& word, const std::string& why) {
  throw CacheError(kUsageCode, fmt::format("dataset.input: {}: {}", word, why));
}

bool is_left_out(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.empty() || name[0] == '.' || name[0] == '_';
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_left_out(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      found.push_back(at->path());
    }
  }
  if (error) refuse_input(folder.string(), error.message());
  if (found.empty()) refuse_input(folder.string(), "there is no file in this folder");
  std::sort(found.begin(), found.end());
  return found;
}

bool is_pattern(const std::string& word) { return word.find_first_of("*?[") != std::string::npos; }

std::vector<fs::path> files_of_pattern(const std::string& word) {
  glob_t found = {};
  const int failed = ::glob(word.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<fs::path> files;
  for (std::size_t i = 0; failed == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::vector<fs::path> all;
  for (const fs::path& path : files) {
    if (is_left_out(path)) continue;
    if (!fs::is_directory(path)) {
      all.push_back(path);
      continue;
    }
    const std::vector<fs::path> below = files_below(path);
    all.insert(all.end(), below.begin(), below.end());
  }
  if (all.empty()) refuse_input(word, "no file has such a name");
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<fs::path> files_of_word(const std::string& word) {
  if (word.starts_with("file://")) return files_of_word(word.substr(7));
  if (word.find("://") != std::string::npos)
    refuse_input(word, "this version of dtrain reads files of this machine alone");
  std::error_code error;
  if (fs::is_directory(word, error)) return files_below(word);
  if (fs::exists(word, error) || !is_pattern(word)) return {word};
  return files_of_pattern(word);
}

struct stat open_facts(const OwnedFd& file, const std::string& path) {
  struct stat facts = {};
  if (!file || ::fstat(file.get(), &facts) != 0) throw_system(path, errno);
  return facts;
}

InputFile file_facts(const struct stat& facts, const std::string& path) {
  return {path, static_cast<std::uint64_t>(facts.st_size), facts.st_mtim.tv_sec * kNanos + facts.st_mtim.tv_nsec, {}};
}

InputFile facts_of_input(const fs::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) refuse_input(path.string(), std::generic_category().message(errno));
  if (!S_ISREG(facts.st_mode)) refuse_input(path.string(), "it is no regular file");
  return file_facts(facts, path.string());
}

}  // namespace

InputFile digest_file(const fs::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  InputFile out = file_facts(open_facts(file, path.string()), path.string());
  Sha256 digest;
  std::string buffer(kDigestBuffer, '\0');
  std::uint64_t sum = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system(path, errno);
    if (got == 0) break;
    digest.add(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
    sum += static_cast<std::uint64_t>(got);
  }
  out.size = sum;
  out.sha256 = digest.end();
  return out;
}

std::vector<InputFile> input_files(const std::vector<std::string>& words, InputsBy by) {
  if (words.empty()) throw CacheError(kUsageCode, "dataset.input: name at least one file or folder");
  std::vector<InputFile> files;
  std::set<std::string> seen;
  for (const std::string& word : words) {
    for (const fs::path& path : files_of_word(word)) {
      const fs::path whole = fs::absolute(path).lexically_normal();
      if (!seen.insert(whole.string()).second) continue;
      files.push_back(facts_of_input(whole));
      if (by == InputsBy::content) files.back().sha256 = digest_file(whole).sha256;
    }
  }
  return files;
}

void check_unchanged(const std::vector<InputFile>& inputs) {
  for (const InputFile& before : inputs) {
    struct stat facts = {};
    const bool is_there = ::stat(before.path.c_str(), &facts) == 0;
    const InputFile now = file_facts(facts, before.path);
    if (!is_there || now.size != before.size || now.mtime_ns != before.mtime_ns)
      throw CacheError(kSystemCode,
                       fmt::format("{}: it has changed while it was read; start again when it is whole", before.path));
  }
}

fs::path usual_cache(const std::string& first_word) {
  const fs::path word = first_word.starts_with("file://") ? first_word.substr(7) : first_word;
  std::error_code error;
  if (fs::is_directory(word, error)) return fs::absolute(word) / ".dtrain-cache";
  fs::path folder = fs::absolute(word).parent_path();
  while (is_pattern(folder.string()) && !fs::exists(folder, error)) folder = folder.parent_path();
  return folder / ".dtrain-cache";
}

}  // namespace dtrain::data
