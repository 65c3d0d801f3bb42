#pragma once
// Where the agents of this user on this host, and servers, have their sockets for `dtrain status`: in a folder that
// nobody else can enter. A socket is called PID-RANDOM.
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// /tmp/dtrain-UID, which outlives a login, then $XDG_RUNTIME_DIR/dtrain. A socket is made in the first that can be had;
// who looks for sockets looks in all.
std::vector<std::string> status_folders();

// Why this folder, which is there, cannot be trusted: another user's, or open to others.
Result<void> check_status_folder(const std::string& folder);

// A socket that listens in `folder`, made if need be; `path`: where. Also removes what dead processes have left there.
Result<UniqueFd> listen_in_status_folder(const std::string& folder, std::string& path);

// Remove the socket, and its folder if it was the last one.
void remove_status_socket(const std::string& path);

struct StatusPeer {
  std::string path;
  int pid = 0;         // by its name
  UniqueFd connected;  // or an error
  int error = 0;
};
// A connection to each socket in the folder; those of dead processes are removed.
std::vector<StatusPeer> connect_to_status_folder(const std::string& folder);

}  // namespace dtrain::launcher
