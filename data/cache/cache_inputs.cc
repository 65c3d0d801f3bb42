// Tested by test/unit/data/cache/cache_inputs_test.cc.
#include "data/cache/cache_inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/cache/posix_files.h"
#include "data/cache/sha256.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigestBuffer = std::size_t{1} << 20;
constexpr std::int64_t kNanos = 1'000'000'000;

[[noreturn]] void refuse_input(const std::string& path, const std::string& why) {
  throw CacheError(kUsageCode, fmt::format("dataset.input: {}: {}", path, why));
}

struct stat open_facts(const OwnedFd& file, const std::string& path) {
  struct stat facts = {};
  if (!file || ::fstat(file.get(), &facts) != 0) throw_system(path, errno);
  return facts;
}

CacheInput file_facts(const struct stat& facts, const std::string& path) {
  return {path, static_cast<std::uint64_t>(facts.st_size), facts.st_mtim.tv_sec * kNanos + facts.st_mtim.tv_nsec, {}};
}

CacheInput facts_of_input(const fs::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) refuse_input(path.string(), std::generic_category().message(errno));
  if (!S_ISREG(facts.st_mode)) refuse_input(path.string(), "it is no regular file");
  return file_facts(facts, path.string());
}

}  // namespace

CacheInput digest_file(const fs::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CacheInput out = file_facts(open_facts(file, path.string()), path.string());
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

std::vector<CacheInput> cache_inputs(const std::vector<std::string>& files, InputsBy by) {
  std::vector<CacheInput> found;
  found.reserve(files.size());
  for (const std::string& file : files) found.push_back({file, 0, 0, {}});
  return cache_inputs(found, by);
}

std::vector<CacheInput> cache_inputs(const std::vector<CacheInput>& files, InputsBy by) {
  std::vector<CacheInput> inputs;
  std::set<std::string> seen;
  for (const CacheInput& file : files) {
    const bool is_object = is_store_uri(file.path);
    const fs::path path = is_object ? fs::path(file.path) : fs::absolute(file.path).lexically_normal();
    if (!seen.insert(path.string()).second) continue;
    if (is_object && by == InputsBy::content)
      throw CacheError(kUsageCode, fmt::format("dataset.inputs_by: {} is in an object store, where size and time of "
                                               "change stand for the content; leave inputs_by out",
                                               file.path));
    inputs.push_back(is_object ? file : facts_of_input(path));
    if (by == InputsBy::content) inputs.back().sha256 = digest_file(path).sha256;
  }
  if (inputs.empty()) throw CacheError(kUsageCode, "dataset.input: name at least one file or folder");
  return inputs;
}

void check_unchanged(const std::vector<CacheInput>& inputs) {
  for (const CacheInput& before : inputs) {
    if (is_store_uri(before.path)) continue;
    struct stat facts = {};
    const bool is_there = ::stat(before.path.c_str(), &facts) == 0;
    const CacheInput now = file_facts(facts, before.path);
    if (!is_there || now.size != before.size || now.mtime_ns != before.mtime_ns)
      throw CacheError(kSystemCode,
                       fmt::format("{}: it has changed while it was read; start again when it is whole", before.path));
  }
}

fs::path usual_cache(const std::string& word) {
  if (is_store_uri(word))
    throw CacheError(kUsageCode, fmt::format("{} is in an object store, so name the folder for what is made of it: "
                                             "backend.cache_dir, or --cache-dir",
                                             word));
  std::error_code error;
  if (fs::is_directory(word, error)) return fs::absolute(word) / ".dtrain-cache";
  fs::path folder = fs::absolute(word).parent_path();
  while (folder.string().find_first_of("*?[") != std::string::npos && !fs::exists(folder, error))
    folder = folder.parent_path();
  return folder / ".dtrain-cache";
}

}  // namespace dtrain::data
