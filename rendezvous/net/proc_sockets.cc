#include "rendezvous/net/proc_sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

namespace dtrain {
namespace {

constexpr const char* kEstablished = "01";
constexpr const char* kListens = "0A";

// One line of /proc/net/tcp or tcp6.
struct Row {
  std::string local, remote, state;
  SocketOwner owner;
};

// Until `take` returns true. False: the table cannot be read.
bool read_table(const char* table, const std::function<bool(const Row&)>& take) {
  std::ifstream in(table);
  std::string line;
  if (!std::getline(in, line)) return false;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string slot, skipped;
    Row row;
    words >> slot >> row.local >> row.remote >> row.state >> skipped >> skipped >> skipped >> row.owner.uid >>
        skipped >> row.owner.inode;
    if (words && take(row)) break;
  }
  return true;
}

// As the kernel writes it: the words of the address as they lie in memory, and the port.
std::string in_table(const std::string& address, int port, bool table6) {
  in_addr v4{};
  std::array<std::uint32_t, 4> words{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    if (!table6) return fmt::format("{:08X}:{:04X}", v4.s_addr, port);
    words = {0, 0, htonl(0xffff), v4.s_addr};
  } else if (::inet_pton(AF_INET6, address.c_str(), words.data()) != 1 || !table6) {
    return "";
  }
  return fmt::format("{:08X}{:08X}{:08X}{:08X}:{:04X}", words[0], words[1], words[2], words[3], port);
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

bool has_one_of(const std::string& fd_folder, const std::set<std::uint64_t>& inodes) {
  constexpr std::string_view kSocket = "socket:[";
  const Folder folder(::opendir(fd_folder.c_str()), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    char target[64];
    const ssize_t size = ::readlink((fd_folder + "/" + entry->d_name).c_str(), target, sizeof target - 1);
    if (size <= 0) continue;
    target[size] = 0;
    if (!std::string_view(target).starts_with(kSocket)) continue;
    if (inodes.contains(std::strtoull(target + kSocket.size(), nullptr, 10))) return true;
  }
  return false;
}

}  // namespace

Result<SocketOwner> owner_by_proc(const TcpEnds& ends) {
  bool readable = false;
  std::optional<Row> found;
  for (const bool table6 : {false, true}) {
    const std::string own = in_table(ends.own, ends.own_port, table6);
    const std::string other = in_table(ends.other, ends.other_port, table6);
    if (own.empty() || other.empty() || found) continue;
    const bool read = read_table(table6 ? "/proc/net/tcp6" : "/proc/net/tcp", [&](const Row& row) {
      if (row.local == own && row.remote == other) found = row;
      return found.has_value();
    });
    readable = readable || read;
  }
  if (!readable) return Error{ErrorKind::system, "/proc/net/tcp cannot be read", ENOSYS};
  if (!found) return Error{ErrorKind::system, "peer is not on this host or is gone", ENOENT};
  if (found->state != kEstablished || found->owner.inode == 0)
    return Error{ErrorKind::system, "peer has closed the connection", ENOTCONN};
  return found->owner;
}

std::set<std::uint64_t> listeners_at(std::uint16_t port) {
  std::set<std::uint64_t> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"})
    read_table(table, [&](const Row& row) {
      const auto colon = row.local.rfind(':');
      if (row.state == kListens && colon != std::string::npos &&
          std::strtoul(row.local.c_str() + colon + 1, nullptr, 16) == port)
        inodes.insert(row.owner.inode);
      return false;
    });
  return inodes;
}

pid_t holder_of(const std::set<std::uint64_t>& inodes) {
  if (inodes.empty()) return 0;
  const Folder proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") == std::string::npos && has_one_of("/proc/" + pid + "/fd", inodes))
      return std::atoi(pid.c_str());
  }
  return 0;
}

}  // namespace dtrain
