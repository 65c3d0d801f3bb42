// gpu_worker PART, under a launcher: moves, streams, training, sharded, horovod, diverged, memory. Or gpu_worker fail
// WAY CULPRIT. Without a GPU it does the same on CPUs.
#include <iostream>
#include <map>

#include "test/process/gpu/checks.h"

int main(int argc, char** argv) {
  using namespace dtrain::gpu_test;
  const std::map<std::string, void (*)(Checks&)> parts{{"moves", check_moves},       {"streams", check_streams},
                                                       {"training", check_training}, {"sharded", check_sharded},
                                                       {"horovod", check_horovod},   {"diverged", check_diverged}};
  const std::string part = argc > 1 ? argv[1] : "";
  if (part == "fail" && argc == 4) return fail(argv[2], std::atoi(argv[3]));
  torch::set_num_threads(1);
  dtrain::InitOptions options;
  options.collective_timeout = std::chrono::seconds{40};
  auto session = dtrain::init(options);
  if (part == "memory") {
    measure_memory(session);
    session.shutdown();
    return 0;
  }
  const auto found = parts.find(part);
  if (found == parts.end()) {
    std::cerr
        << "usage: gpu_worker moves|streams|training|sharded|horovod|diverged|memory, or gpu_worker fail WAY CULPRIT\n";
    return 2;
  }
  std::cout << "on " << session.device() << '\n' << std::flush;
  bool failed = false;
  {
    Checks checks(session);
    found->second(checks);
    failed = checks.failed;
  }
  session.shutdown();
  std::puts("end");
  return failed ? 1 : 0;
}
