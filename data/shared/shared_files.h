#pragma once
// Files that several processes share, on hosts that see the same folder: what becomes visible does so whole and once,
// and the kernel frees the lock of whoever dies.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data/os/owned_fd.h"

namespace dtrain::data {

// A file or a folder of the work is not there: perhaps because another process has found all of it done.
struct NotThere {
  std::string path;
};

// Nothing: there is no such file. Throws DataError, as all here, with the path.
std::optional<std::string> read_shared(const std::string& path);

// Whether a file must be there after a loss of power. Others see it in any case.
enum class Durable { yes, no };

// `write` makes the file `draft`, and closes it. Then that is synced, if it is to be durable, and linked to `path`, if
// there is none by then, and its own name goes.
void make_once(const std::string& draft, const std::string& path, const std::function<void(const std::string&)>& write,
               Durable durable = Durable::yes);
// The same with this content. Returns what is at `path` then.
std::string link_content(const std::string& work, const std::string& path, const std::string& content,
                         Durable durable = Durable::yes);

// A new file.
void write_all(const std::string& path, const std::string& content);

// What nobody else names anything, whatever hosts and containers there are: 16 digits.
std::string random_name();
// Of a file that is being written.
std::string draft_ending();

enum class Lock { exclusive, shared };
// Nothing: another process has one that excludes it.
std::optional<OwnedFd> try_lock(const std::string& path, Lock lock);

void sync_shared_folder(const std::string& path);
bool is_there(const std::string& path);
// Throws NotThere or DataError.
[[noreturn]] void throw_of_path(const std::string& path, int error);

}  // namespace dtrain::data
