// Tested by test/process/data/object_cache_test.py.
#include "data/objects/arrow_objects.h"

#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <utility>

#include "data/cache/cache_error.h"
#include "data/files/store.h"
#include "data/files/store_errors.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr std::int64_t kPiece = std::int64_t{8} << 20;
constexpr std::size_t kMostWhole = std::size_t{256} << 20;
constexpr const char* kNoBucket = "there is no such bucket";

class ArrowObjects : public ObjectStore {
 public:
  ArrowObjects(std::string uri, const StoreOptions& options)
      : uri_(std::move(uri)), store_(open_store(uri_, options, &path_)) {
    while (path_.ends_with('/')) path_.pop_back();
  }

  std::string uri(const std::string& name) const override { return name.empty() ? uri_ : uri_ + "/" + name; }

  std::vector<std::string> folders() override {
    // Of Google's store Arrow lists objects, and a folder only where an object of its own stands for it.
    const bool by_objects = uri_.starts_with("gs://");
    std::set<std::string> names;
    for (const auto& each : listed("", by_objects)) {
      const std::string name = each.path().substr(path_.size() + 1);
      const std::size_t slash = name.find('/');
      if (each.IsDirectory() || slash != name.npos) names.insert(name.substr(0, slash));
    }
    if (names.empty() && !may_have_bucket()) throw CacheError(kSystemCode, fmt::format("{}: {}", uri_, kNoBucket));
    return {names.begin(), names.end()};
  }

  std::vector<ObjectSeen> objects(const std::string& folder) override {
    std::vector<ObjectSeen> seen;
    const std::size_t begin = at(folder).size() + 1;
    for (const auto& each : listed(folder, true)) {
      if (!each.IsFile()) continue;
      const auto changed = std::chrono::duration_cast<std::chrono::seconds>(each.mtime().time_since_epoch());
      seen.push_back({each.path().substr(begin), static_cast<std::uint64_t>(each.size()), changed.count()});
    }
    return seen;
  }

  std::optional<std::string> read(const std::string& name) override {
    const auto info = value(store_->GetFileInfo(at(name)), name);
    if (!info.IsFile()) return std::nullopt;
    std::string text;
    try {
      read_through(name, [&](std::string_view piece) {
        text += piece;
        if (text.size() > kMostWhole) throw CacheError(kSystemCode, uri(name) + ": it is too long");
      });
    } catch (const CacheError&) {
      if (!value(store_->GetFileInfo(at(name)), name).IsFile()) return std::nullopt;  // removed meanwhile
      throw;
    }
    return text;
  }

  void write(const std::string& name, std::string_view text) override {
    send(name, [&](arrow::io::OutputStream& into) {
      check(into.Write(text.data(), static_cast<std::int64_t>(text.size())), name);
    });
  }

  void upload(const std::string& name, const std::filesystem::path& file, const Between& between) override {
    std::ifstream from(file, std::ios::binary);
    if (!from) throw CacheError(kSystemCode, file.string() + ": it cannot be read");
    send(name, [&](arrow::io::OutputStream& into) {
      std::string piece(static_cast<std::size_t>(kPiece), '\0');
      do {
        between();
        from.read(piece.data(), kPiece);
        check(into.Write(piece.data(), from.gcount()), name);
      } while (from);
      if (from.bad()) throw CacheError(kSystemCode, file.string() + ": it cannot be read");
    });
  }

  void read_through(const std::string& name, const TakePiece& take) override {
    const auto from = value(store_->OpenInputStream(at(name)), name);
    for (;;) {
      const auto piece = value(from->Read(kPiece), name);
      if (piece->size() == 0) return;
      take({reinterpret_cast<const char*>(piece->data()), static_cast<std::size_t>(piece->size())});
    }
  }

  void remove(const std::string& name) override {
    const auto done = store_->DeleteFile(at(name));
    if (!done.ok() && value(store_->GetFileInfo(at(name)), name).IsFile()) check(done, name);
  }

  void remove_folder(const std::string& folder) override {
    const auto done = store_->DeleteDir(at(folder));
    if (!done.ok() && value(store_->GetFileInfo(at(folder)), folder).IsDirectory()) check(done, folder);
  }

 private:
  std::string at(const std::string& name) const { return name.empty() ? path_ : path_ + "/" + name; }

  void check(const arrow::Status& status, const std::string& name) const {
    if (status.ok()) return;
    const bool has_bucket = status.message().find("NO_SUCH_BUCKET") == std::string::npos;
    std::string why = has_bucket ? store_error_text(uri_.substr(0, uri_.find(':')), status.message()) : kNoBucket;
    if (why.find("check ") != why.npos) why += "; in a config these are backend.cache_credentials";
    throw CacheError(kSystemCode, fmt::format("{}: {}", uri(name), why));
  }
  template <class T>
  T value(arrow::Result<T> result, const std::string& name) const {
    check(result.status(), name);
    return std::move(result).MoveValueUnsafe();
  }

  // A listing of a bucket that is not there is just empty. Who may read a part of a bucket cannot ask for all of it.
  bool may_have_bucket() const {
    const auto bucket = store_->GetFileInfo(path_.substr(0, path_.find('/')));
    return !bucket.ok() || bucket->type() != arrow::fs::FileType::NotFound;
  }

  arrow::fs::FileInfoVector listed(const std::string& folder, bool deep) const {
    arrow::fs::FileSelector all;
    all.base_dir = at(folder);
    all.allow_not_found = true;
    all.recursive = deep;
    return value(store_->GetFileInfo(all), folder);
  }

  // In S3 a stream that is not closed is no object. In Google's store it may become a short one: who writes the name of
  // an object anywhere compares its size first.
  template <class Fill>
  void send(const std::string& name, const Fill& fill) {
    const auto into = value(store_->OpenOutputStream(at(name), {}), name);
    try {
      fill(*into);
      check(into->Close(), name);
    } catch (...) {
      (void)into->Abort();
      throw;
    }
  }

  std::string uri_;
  std::string path_{};  // BUCKET/PREFIX
  std::shared_ptr<arrow::fs::FileSystem> store_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_objects(const std::string& uri, const nlohmann::json& credentials) {
  try {
    const StoreOptions options = credentials.empty()
                                     ? store_options()
                                     : merged_options("backend.cache_credentials", credentials.dump(),
                                                      [](const char* name) { return std::getenv(name); });
    return std::make_unique<ArrowObjects>(uri, options);
  } catch (const DataError& error) {  // of the options, or of the region of a bucket
    throw CacheError(kSystemCode, error.what());
  }
}

}  // namespace dtrain::data
