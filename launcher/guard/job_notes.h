#pragma once
// What a job has outside of its processes, and what else front and guard must know should they outlive the agent. The
// agent writes the notes, in memory that the three share.
#include <sys/types.h>

#include "launcher/guard/fence.h"

namespace dtrain::launcher {

struct JobNotes {
  pid_t guard = 0;
  char cgroup_folder[1024] = {};
  char temporary_folder[1024] = {};  // of the logs, see LogTree::remove_if_empty()
  char status_socket[128] = {};      // status_folder.h
  bool interrupted = false;          // SIGINT ended the job
  Fence fence;                       // of this node, for the guard
};

// When no process of the job is left, and the agent writes no more: remove the cgroup, empty folders and the status
// socket. Each of them may be gone already.
void remove_what_is_left(const JobNotes& notes);

}  // namespace dtrain::launcher
