#include "launcher/status/status_folder.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace dtrain::launcher {

namespace {

constexpr int kMostWaiting = 16;  // connections that the agent has not taken yet
constexpr int kAttempts = 3;      // the folder may go away while a socket is made in it

UniqueFd unix_socket(int type) { return UniqueFd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Nothing: the path is too long.
bool address_of(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::copy(path.begin(), path.end(), address.sun_path);
  return true;
}

// 0 or errno.
int connect_to(const std::string& path, int type, UniqueFd& socket) {
  sockaddr_un address;
  if (!address_of(path, address)) return ENAMETOOLONG;
  socket = unix_socket(type);
  if (!socket) return errno;
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
  if (!opened) return names;
  while (const dirent* entry = ::readdir(opened.get())) names.emplace_back(entry->d_name);
  return names;
}

// Of "123-4f"; 0 for other names.
int pid_of(std::string_view name) {
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc() && end != name.data() + name.size() && *end == '-' && pid > 0 ? pid : 0;
}

// A connection of another type tells whether a process has the socket, from its bind() on (EPROTOTYPE), and that
// process hears nothing of it.
void sweep_status(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + "/" + name;
    UniqueFd socket;
    if (pid_of(name) != 0 && connect_to(path, SOCK_DGRAM, socket) == ECONNREFUSED) ::unlink(path.c_str());
  }
}

Result<UniqueFd> listen_at_path(const std::string& path) {
  sockaddr_un address;
  if (!address_of(path, address)) return system_error(path, ENAMETOOLONG);
  UniqueFd socket = unix_socket(SOCK_STREAM);
  if (!socket) return system_error("a socket", errno);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return system_error(path, errno);
  if (::listen(socket.get(), kMostWaiting) == 0) return socket;
  const int error = errno;
  ::unlink(path.c_str());
  return system_error(path, error);
}

}  // namespace

std::vector<std::string> status_folders() {
  const std::string usual = fmt::format("dtrain-{}", ::geteuid());
  std::vector<std::string> all = {"/tmp/" + usual};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat facts {};
  // After `su` it may be another user's.
  if (runtime != nullptr && runtime[0] == '/' && ::stat(runtime, &facts) == 0 && facts.st_uid == ::geteuid())
    all.push_back(std::string(runtime) + "/dtrain");
  // Anybody may call a folder so; only those of this user count.
  for (const std::string& name : names_in("/tmp"))
    if (name.size() == usual.size() + 7 && name.starts_with(usual + "-") && check_status_folder("/tmp/" + name))
      all.push_back("/tmp/" + name);
  return all;
}

Result<std::string> new_status_folder() {
  std::string path = fmt::format("/tmp/dtrain-{}-XXXXXX", ::geteuid());
  if (::mkdtemp(path.data()) == nullptr) return system_error("cannot make a folder in /tmp", errno);
  return path;
}

Result<void> check_status_folder(const std::string& folder) {
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) return system_error(folder, errno);
  if (!S_ISDIR(facts.st_mode)) return Error{ErrorKind::system, folder + " is not a folder"};
  if (facts.st_uid != ::geteuid())
    return Error{ErrorKind::system, fmt::format("{} belongs to user {}, not to you", folder, facts.st_uid)};
  if ((facts.st_mode & 077) != 0)
    return Error{ErrorKind::system, folder + " is open to other users; remove it, or make it 0700"};
  return {};
}

Result<UniqueFd> listen_in_status_folder(const std::string& folder, std::string& path) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != ssize_t(sizeof number)) number = std::uint32_t(std::time(nullptr));
  const std::string name = fmt::format("{}-{:08x}", ::getpid(), number);
  for (int attempt = 1;; ++attempt) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(folder, errno);
    if (auto good = check_status_folder(folder); !good && good.error().errno_value != ENOENT) return good.error();
    auto socket = listen_at_path(folder + "/" + name);
    if (!socket && socket.error().errno_value == ENOENT && attempt < kAttempts) continue;
    if (!socket) return socket.error();
    path = folder + "/" + name;
    sweep_status(folder);
    return socket;
  }
}

void remove_status_socket(const std::string& path) {
  ::unlink(path.c_str());
  ::rmdir(path.substr(0, path.rfind('/')).c_str());
}

std::vector<StatusPeer> connect_to_status_folder(const std::string& folder) {
  std::vector<StatusPeer> peers;
  sweep_status(folder);
  ::rmdir(folder.c_str());  // if nothing is left
  for (const std::string& name : names_in(folder)) {
    if (pid_of(name) == 0) continue;
    StatusPeer peer{folder + "/" + name, pid_of(name), {}, 0};
    peer.error = connect_to(peer.path, SOCK_STREAM, peer.connected);
    // Refused: it is just coming or going.
    if (peer.error != ECONNREFUSED && peer.error != ENOENT) peers.push_back(std::move(peer));
  }
  std::sort(peers.begin(), peers.end(), [](const StatusPeer& a, const StatusPeer& b) { return a.pid < b.pid; });
  return peers;
}

}  // namespace dtrain::launcher
