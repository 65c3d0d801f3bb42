#include "launcher/report/job_lines.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

using std::chrono::milliseconds;

TEST_CASE("a job's first and last line say what it consists of, and where its output is if it is in files") {
  JobSpec spec;
  spec.program = "train.py";
  spec.nproc_per_node = 2;
  CHECK(start_line(spec, "/tmp/job") == "2 workers of train.py");
  CHECK(success_line(spec, "/tmp/job", 0, milliseconds(1340)) == "done: 2 workers, 1.3 s");
  CHECK(success_line(spec, "", 2, milliseconds(12)) == "done: 2 workers, 12 ms, 2 restarts");

  spec.nproc_per_node = 1;
  spec.tee.everywhere = Streams::out;
  CHECK(start_line(spec, "/tmp/job") == "1 worker of train.py, logs in /tmp/job");
  CHECK(success_line(spec, "/tmp/job", 1, milliseconds(95000)) ==
        "done: 1 worker, 1 min 35 s, 1 restart, logs in /tmp/job");
}

}  // namespace dtrain::launcher
