#pragma once
// What a job has outside of its processes, and what else front and guard must know should they outlive the agent. The
// agent writes the notes, in memory that the three share.
#include <sys/types.h>

#include <climits>
#include <cstddef>
#include <string>

#include "launcher/guard/fence.h"

namespace dtrain::launcher {

struct JobNotes {
  pid_t guard = 0;
  char cgroup_folder[PATH_MAX] = {};
  char temporary_folder[PATH_MAX] = {};  // of the logs, see LogTree::remove_if_empty()
  char status_socket[128] = {};          // status_folder.h
  bool interrupted = false;              // SIGINT ended the job
  Fence fence;                           // of this node, for the guard
};

// Write a path into one of the notes. One that is too long is left out: its beginning would be another path.
template <std::size_t size>
void note_path(char (&note)[size], const std::string& path) {
  const bool fits = path.size() < size;
  note[fits ? path.copy(note, size - 1) : 0] = 0;
}

// When no process of the job is left, and the agent writes no more: remove the cgroup, empty folders and the status
// socket. Each of them may be gone already.
void remove_what_is_left(const JobNotes& notes);

}  // namespace dtrain::launcher
