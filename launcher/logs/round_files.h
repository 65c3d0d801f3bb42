#pragma once
// The files that the workers of one round share, in the folder of their attempt: filtered_stdout.log and
// filtered_stderr.log, the tee'd lines that contain what --duplicate-std*-filters names.
// Tested by test/process/launcher/console_test.py.
#include <memory>
#include <string>

#include "launcher/job/job_spec.h"
#include "launcher/output/output_router.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

class RoundFiles {
 public:
  // Open what the job asks for in `attempt`, the folder that holds the workers' folders, in place of what the round
  // before had. Does nothing when called again, or without a folder. Errors: the disk or the limit of open files.
  Result<void> open(const JobSpec& spec, const std::string& attempt);

  // Where picked lines of this stream (out or err) go; null: nowhere.
  const std::shared_ptr<LineCopy>& copy(Streams which) const { return which == Streams::err ? err_ : out_; }

 private:
  std::string attempt_;
  std::shared_ptr<LineCopy> out_;
  std::shared_ptr<LineCopy> err_;
};

}  // namespace dtrain::launcher
