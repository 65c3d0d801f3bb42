#include "launcher/guard/job_notes.h"

#include "launcher/base/folders.h"
#include "launcher/process/cgroup.h"
#include "launcher/status/status_folder.h"

namespace dtrain::launcher {

void remove_what_is_left(const JobNotes& notes) {
  if (notes.cgroup_folder[0] != 0) remove_cgroup(notes.cgroup_folder);
  if (notes.temporary_folder[0] != 0) remove_empty_folders(notes.temporary_folder);
  if (notes.status_socket[0] != 0) remove_status_socket(notes.status_socket);
}

}  // namespace dtrain::launcher
