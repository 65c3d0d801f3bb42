#pragma once
// Where the agents of this user on this host, and servers, have their sockets for `dtrain status`: in a folder that
// nobody else can enter. A socket is called PID-RANDOM. Tested by test/process/launcher/status_test.py.
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// /tmp/dtrain-UID, which outlives a login, $XDG_RUNTIME_DIR/dtrain, and what new_status_folder() has made. A socket is
// made in the first that can be had; who looks for sockets looks in all.
std::vector<std::string> status_folders();

// For where another user has taken /tmp/dtrain-UID: a folder /tmp/dtrain-UID-XXXXXX that status_folders() finds, by its
// owner.
Result<std::string> new_status_folder();

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
