#pragma once
// Files and folders of the cache, by the calls that can promise something about them. Errors are CacheErrors that name
// the path.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/os/owned_fd.h"

namespace dtrain::data {

// "PATH: what the system says". A full disk and a folder that belongs to somebody else say what to do.
[[noreturn]] void throw_system(const std::filesystem::path& path, int error);

// Nothing: it is not there. A link is refused.
std::optional<std::string> read_small_file(const std::filesystem::path& path);
// A new file, on the disk when this returns. False: there is one already.
bool write_new_file(const std::filesystem::path& path, std::string_view text);
// Writes at the beginning of an open file.
void write_over(int fd, std::string_view text, const std::filesystem::path& path);

// Nothing: it is not there. Of a link: the link's own.
std::optional<struct stat> facts_of(const std::filesystem::path& path);

// What was written into this file or folder is on the disk when this returns.
void sync_path(const std::filesystem::path& path);

// The error `what` of work in the folder is that the disk, or a quota, is full: it says so, or nothing more can be
// written there. Not every library says so itself.
bool is_disk_full(const std::string& what, const std::filesystem::path& folder);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// False: it is not there.
bool rename_if_there(const std::filesystem::path& from, const std::filesystem::path& to);
// With all that is in it, if it is there. Follows no link.
void remove_tree(const std::filesystem::path& path);

// Whoever holds it may change what lies in the folder. Nothing: somebody else has it.
OwnedFd try_lock(const std::filesystem::path& file);

}  // namespace dtrain::data
