// Tested by test/unit/data/files/data_files_test.cc and test/process/data/stores_test.py.
#include "data/files/data_files.h"

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/file.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <glob.h>
#include <strings.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <type_traits>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/files/open_file.h"
#include "data/files/store.h"
#include "data/files/store_errors.h"
#include "data/files/store_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWild = "*?[";
constexpr std::int64_t kNanos = 1'000'000'000;

std::string name_of_path(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_hidden(const std::string& path) {
  const std::string name = name_of_path(path);
  return name.empty() || name[0] == '.' || name[0] == '_';
}

// ---- of this machine

DataFile local_file(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) fail_at(path, std::generic_category().message(errno));
  if (S_ISDIR(facts.st_mode)) fail_at(path, std::generic_category().message(EISDIR));
  return {path, static_cast<std::uint64_t>(facts.st_size), facts.st_mtim.tv_sec * kNanos + facts.st_mtim.tv_nsec};
}

std::vector<std::string> local_folder(const std::string& folder, const FilesWanted& wanted) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string();
    if (!is_hidden(path) && wanted.by_name(name_of_path(path))) found.push_back(path);
  }
  if (error) fail_at(folder, error.message());
  if (found.empty()) fail_at(folder, wanted.none);
  return found;
}

std::vector<std::string> local_pattern(const std::string& pattern) {
  glob_t matches{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&matches, globfree);
  std::vector<std::string> found;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) != 0) return found;
  for (std::size_t i = 0; i < matches.gl_pathc; ++i)
    if (!is_hidden(matches.gl_pathv[i]) && !fs::is_directory(matches.gl_pathv[i]))
      found.emplace_back(matches.gl_pathv[i]);
  return found;
}

std::vector<DataFile> local_files(const std::string& word, const FilesWanted& wanted) {
  std::error_code error;
  std::vector<std::string> paths{word};
  if (fs::is_directory(word, error)) {
    paths = local_folder(word, wanted);
  } else if (!fs::exists(word, error) && word.find_first_of(kWild) != std::string::npos) {
    paths = local_pattern(word);
  }
  std::vector<DataFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back(local_file(path));
  return files;
}

// ---- of a store

class StoreFiles {
 public:
  StoreFiles(std::string word, std::shared_ptr<arrow::fs::FileSystem> store)
      : word_(std::move(word)), uri_(*store_uri(word_)), store_(std::move(store)) {}

  std::vector<DataFile> find(const FilesWanted& wanted) const {
    const arrow::fs::FileInfo facts = asked([&] { return store_->GetFileInfo(uri_.path()); });
    if (facts.IsFile()) return {file_of(facts)};
    if (facts.IsDirectory() || is_unseen_folder()) return folder(wanted);
    if (uri_.key.find_first_of(kWild) != std::string::npos) return pattern();
    if (!uri_.key.empty() && asked([&] { return store_->GetFileInfo(uri_.bucket()); }).IsDirectory())
      fail_at(word_, "there is no such object, and no folder with objects in it");
    fail_at(word_, fmt::format("there is no bucket '{}'", uri_.bucket()));
  }

 private:
  template <typename Ask>
  auto asked(const Ask& ask) const -> std::decay_t<decltype(*ask())> {
    auto result = caught(ask);
    if (!result.ok()) fail_at(word_, store_error_text(uri_.scheme, result.status().message()));
    return std::move(result).ValueUnsafe();
  }

  DataFile file_of(const arrow::fs::FileInfo& facts) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(facts.mtime().time_since_epoch()).count();
    return {uri_.uri_of(facts.path()), static_cast<std::uint64_t>(facts.size()), seconds * kNanos, store_,
            facts.path()};
  }

  std::vector<arrow::fs::FileInfo> listed(const std::string& folder, bool recursive) const {
    arrow::fs::FileSelector all;
    all.base_dir = folder;
    all.recursive = recursive;
    all.allow_not_found = true;
    return asked([&] { return store_->GetFileInfo(all); });
  }

  // Of Azure's store Arrow does not find "day" where "day-old" or "day.txt" comes before "day/".
  bool is_unseen_folder() const {
    return is_azure(uri_.scheme) && !uri_.key.empty() && !listed(uri_.path(), /*recursive=*/false).empty();
  }

  std::vector<DataFile> folder(const FilesWanted& wanted) const {
    std::vector<DataFile> files;
    for (const auto& each : listed(uri_.path(), /*recursive=*/false))
      if (each.IsFile() && !is_hidden(each.path()) && wanted.by_name(name_of_path(each.path())))
        files.push_back(file_of(each));
    if (files.empty()) fail_at(word_, wanted.none);
    return files;
  }

  // As in a shell: no '*' matches a '/'.
  std::vector<DataFile> pattern() const {
    const std::string wanted = uri_.path();
    const std::size_t slash = wanted.rfind('/', wanted.find_first_of(kWild, uri_.bucket().size()));
    const bool is_deep = wanted.find('/', slash + 1) != std::string::npos;
    std::vector<DataFile> files;
    for (const auto& each : listed(wanted.substr(0, slash), is_deep))
      if (each.IsFile() && !is_hidden(each.path()) &&
          ::fnmatch(wanted.c_str(), each.path().c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
        files.push_back(file_of(each));
    return files;
  }

  const std::string word_;
  const StoreUri uri_;
  const std::shared_ptr<arrow::fs::FileSystem> store_;
};

// "ETag" of some stores, "etag" of another.
std::string tag_of(const arrow::KeyValueMetadata* facts) {
  for (const char* wanted : {"etag", "last-modified"})
    for (std::int64_t i = 0; facts != nullptr && i < facts->size(); ++i)
      if (::strcasecmp(facts->key(i).c_str(), wanted) == 0) return facts->value(i);
  return "";
}

std::string scheme_of_file(const DataFile& file) { return scheme_of(file.path).value_or(""); }

arrow::Status told(const DataFile& file, const arrow::Status& status) {
  return arrow::Status::IOError(store_error_text(scheme_of_file(file), status.message()));
}

// With the facts that the store says now, not with those that it said before.
arrow::Result<OpenedFile> asked_again(const DataFile& file, std::string* tag) {
  auto opened = caught([&] { return file.store->OpenInputFile(file.key); });
  if (!opened.ok()) return told(file, opened.status());
  const auto facts = caught([&] { return (*opened)->ReadMetadata(); });
  if (!facts.ok()) return told(file, facts.status());
  *tag = tag_of(facts->get());
  return store_file(*opened, scheme_of_file(file));
}

}  // namespace

std::vector<DataFile> find_files(const std::vector<std::string>& words, const FilesWanted& wanted) {
  std::vector<DataFile> all;
  std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>> stores;  // by their URIs' roots
  for (const std::string& word : words) {
    std::vector<DataFile> found;
    if (is_store_uri(word)) {
      const auto uri = store_uri(word);
      std::string path;
      auto& store = stores[uri ? uri->root() : word];
      if (!store) store = open_store(word, &path);
      found = StoreFiles(word, store).find(wanted);
    } else {
      found = local_files(word, wanted);
    }
    if (found.empty()) fail_at(word, "no file matches this pattern");
    std::sort(found.begin(), found.end(), [](const DataFile& a, const DataFile& b) { return a.path < b.path; });
    for (DataFile& file : found) {
      if (file.bytes == 0) fail_at(file.path, "the file is empty; write it again, or take it away");
      all.push_back(std::move(file));
    }
  }
  return all;
}

arrow::Result<OpenedFile> open_first(DataFile& file, arrow::MemoryPool* pool) {
  if (!file.is_remote()) return open_file(file, pool);
  ARROW_ASSIGN_OR_RAISE(auto opened, asked_again(file, &file.tag));
  ARROW_ASSIGN_OR_RAISE(const std::int64_t bytes, opened->GetSize());
  if (static_cast<std::uint64_t>(bytes) != file.bytes)
    return arrow::Status::IOError("it has changed since it was listed; start again when it is whole");
  return opened;
}

arrow::Result<OpenedFile> open_file(const DataFile& file, arrow::MemoryPool* pool) {
  if (!file.is_remote())
    return arrow::io::ReadableFile::Open(file.path, pool == nullptr ? arrow::default_memory_pool() : pool);
  arrow::fs::FileInfo facts(file.key, arrow::fs::FileType::File);
  facts.set_size(static_cast<std::int64_t>(file.bytes));
  auto opened = caught([&] { return file.store->OpenInputFile(facts); });
  if (!opened.ok()) return told(file, opened.status());
  return store_file(*opened, scheme_of_file(file));
}

void check_same(const DataFile& file) {
  if (!file.is_remote()) return;
  std::string tag;
  const auto opened = must(file.path, asked_again(file, &tag));
  const std::int64_t bytes = must(file.path, opened->GetSize());
  if (tag != file.tag || static_cast<std::uint64_t>(bytes) != file.bytes)
    fail_at(file.path, "it has changed while it was read; leave the files alone, and start again");
}

void check_same_after(const DataFile& file, const std::string& error) {
  if (!is_no_answer(error)) check_same(file);
}

}  // namespace dtrain::data
