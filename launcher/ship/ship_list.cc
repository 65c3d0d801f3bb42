// Tested by test/unit/launcher/ship/ship_list_test.cc.
#include "launcher/ship/ship_list.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "launcher/base/readable.h"
#include "launcher/ship/ship_content.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

Error refused(const std::string& path, const std::string& why) {
  return {ErrorKind::usage, printable(path, kLongestShipPath) + " " + why};
}

Error unreadable(const std::string& path, int error) {
  Error said = system_error(printable(path, kLongestShipPath), error);
  said.kind = ErrorKind::usage;
  return said;
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() || folder == "." ? name : folder + "/" + name;
}

bool stays_behind(const std::string& name) { return name.starts_with('.') || name == "__pycache__"; }

class Walk {
 public:
  explicit Walk(const ShipRequest& request) : request_(request) {
    for (const std::string& secret : request.secrets) {
      struct stat facts {};
      if (::stat(secret.c_str(), &facts) == 0) secrets_.emplace_back(facts.st_dev, facts.st_ino);
    }
  }

  Result<ShipList> run() {
    for (const std::string& path : request_.paths)
      if (auto done = take_named(path); !done) return done.error();
    if (bytes_ > request_.most_bytes) return too_much();
    for (const auto& [path, size] : found_)
      if (auto done = read(path); !done) return done.error();
    // A file that grew meanwhile.
    if (list_.bytes > request_.most_bytes) return too_much();
    if (auto done = check_ship_files(list_.files); !done) return done.error();
    return std::move(list_);
  }

 private:
  std::string full(const std::string& path) const { return request_.folder + "/" + path; }

  Result<void> take_named(const std::string& named) {
    const fs::path base = fs::path(request_.folder).lexically_normal();
    const std::string path = (base / named / "").lexically_normal().parent_path().lexically_relative(base).string();
    if (path.empty() || path == ".." || path.starts_with("../"))
      return refused(named, fmt::format("is not below {}, in which the job is started: start it in a folder that has "
                                        "all files below it",
                                        printable(request_.folder, kLongestShipPath)));
    struct stat facts {};
    if (::stat(full(path).c_str(), &facts) != 0) return unreadable(named, errno);
    if (S_ISDIR(facts.st_mode)) return take_folder(path, path);
    return take_file(path, facts);
  }

  Result<void> take_file(const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return refused(path, "is neither a file nor a folder");
    if (std::find(secrets_.begin(), secrets_.end(), std::pair(facts.st_dev, facts.st_ino)) != secrets_.end())
      return refused(path, "is a secret of yours (the token or the key of a job), which does not go along");
    if (!is_ship_path(path)) return refused(path, "is too long a path");
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    if (!found_.emplace(path, size).second) return {};
    bytes_ += size;
    if (found_.size() <= kMostShipFiles) return {};
    return Error{ErrorKind::usage, fmt::format("there are more than {} files: name fewer", kMostShipFiles)};
  }

  // `top`: the folder that was named.
  Result<void> take_folder(const std::string& path, const std::string& top) {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(full(path), error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    if (error) return unreadable(path, error.value());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (stays_behind(name))
        ++list_.left_out;
      else if (auto done = take_entry(below(path, name), top); !done)
        return done;
    }
    return {};
  }

  Result<void> take_entry(const std::string& path, const std::string& top) {
    struct stat facts {};
    if (::lstat(full(path).c_str(), &facts) != 0) return unreadable(path, errno);
    if (S_ISDIR(facts.st_mode)) return take_folder(path, top);
    if (!S_ISLNK(facts.st_mode)) return take_file(path, facts);
    std::error_code error;
    const fs::path target = fs::canonical(full(path), error), root = fs::canonical(full(top), error);
    if (error) return unreadable(path, error.value());
    const std::string inside = target.lexically_relative(root).string();
    if (inside.empty() || inside == ".." || inside.starts_with("../"))
      return refused(path, fmt::format("is a link that leads out of {}: name what it leads to, or leave it out",
                                       printable(top, kLongestShipPath)));
    if (::stat(full(path).c_str(), &facts) != 0) return unreadable(path, errno);
    if (S_ISDIR(facts.st_mode)) return refused(path, "is a link to a folder, and only links to files are followed");
    return take_file(path, facts);
  }

  Error too_much() const {
    const auto largest = std::max_element(found_.begin(), found_.end(),
                                          [](const auto& one, const auto& other) { return one.second < other.second; });
    return {ErrorKind::usage,
            fmt::format("the files have {}, and the limit is {} (--ship-limit); the largest is {} with {}",
                        readable_bytes(std::max(bytes_, list_.bytes)), readable_bytes(request_.most_bytes),
                        printable(largest->first, kLongestShipPath), readable_bytes(largest->second))};
  }

  Result<void> read(const std::string& path) {
    auto content = open_content(full(path));
    if (!content) return Error{ErrorKind::usage, content.error().message};
    auto digest = digest_of(*content);
    if (!digest) return digest.error();
    const auto size = static_cast<std::uint64_t>(content->facts.st_size);
    list_.bytes += size;
    list_.files.push_back({path, size, std::move(*digest), (content->facts.st_mode & 0111) != 0});
    return {};
  }

  const ShipRequest& request_;
  std::vector<std::pair<dev_t, ino_t>> secrets_{};
  std::map<std::string, std::uint64_t> found_{};  // the size of each file
  std::uint64_t bytes_ = 0;
  ShipList list_{};
};

}  // namespace

Result<ShipList> list_ship_files(const ShipRequest& request) { return Walk(request).run(); }

Result<std::string> read_ship_piece(const std::string& folder, const ShipFile& file, const ShipPiece& piece) {
  auto content = open_content(folder + "/" + file.path);
  if (!content) return content.error();
  std::string bytes(piece.size, '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more =
        ::pread(content->file.get(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(piece.from + got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return system_error(printable(file.path, kLongestShipPath), errno);
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  if (got == bytes.size() && static_cast<std::uint64_t>(content->facts.st_size) == file.size) return bytes;
  return Error{ErrorKind::system,
               printable(file.path, kLongestShipPath) + " has changed since the job was started: start it again"};
}

}  // namespace dtrain::launcher
