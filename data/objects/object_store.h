#pragma once
// What a cache asks of the object store that it is in. Names are within the cache: "KEY.JOB/meta.json". All functions
// throw CacheErrors that name the object.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

struct ObjectSeen {
  std::string name{};  // within its folder
  std::uint64_t size = 0;
  std::int64_t changed = 0;  // seconds since 1970, by the store's clock
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // "s3://BUCKET/PREFIX/NAME"; of "": the cache's own.
  virtual std::string uri(const std::string& name) const = 0;
  virtual std::vector<std::string> folders() = 0;
  // All that are within a folder; none, if there is no such folder.
  virtual std::vector<ObjectSeen> objects(const std::string& folder) = 0;

  // Nothing: it is not there.
  virtual std::optional<std::string> read(const std::string& name) = 0;
  // In place of one that is there. Others see all of it or nothing.
  virtual void write(const std::string& name, std::string_view text) = 0;
  // `between` is called every few megabytes, and may throw. Others see all of the file or nothing; in gs:// also a part
  // of it, if it fails.
  using Between = std::function<void()>;
  virtual void upload(const std::string& name, const std::filesystem::path& file, const Between& between) = 0;
  using TakePiece = std::function<void(std::string_view piece)>;
  virtual void read_through(const std::string& name, const TakePiece& take) = 0;

  // It need not be there.
  virtual void remove(const std::string& name) = 0;
  virtual void remove_folder(const std::string& folder) = 0;
};

}  // namespace dtrain::data
