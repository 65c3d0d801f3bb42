#pragma once
// The flags of `resnet`.
#include <cstdint>
#include <string>

namespace resnet {

struct Settings {
  std::int64_t synthetic = 1280;  // pictures to train on; not used with `files`
  std::string files;              // folder of CIFAR-10's binary version; empty: synthetic pictures
  std::int64_t image_size = 32;   // pixels each way
  int depth = 50;
  std::int64_t classes = 10;
  std::int64_t batch = 64;  // images per update, of each process; with `strong` of all together
  bool strong = false;
  int epochs = 15;
  double lr = 2e-4;
  std::uint64_t seed = 1;
  bool in_double = false;
  bool horovod = false;  // Horovod's optimizer averages gradients, not Parallel
  int threads = 0;       // of each process; 0: OMP_NUM_THREADS, or the cores shared out among the host's processes
  std::string init;      // weights to begin with; empty: drawn from the seed
  std::string save;      // where rank 0 writes the weights; empty: nowhere
  std::string json;      // where rank 0 writes the results; empty: nowhere
  std::string loss_csv;  // where rank 0 writes the loss of every step; empty: nowhere
};

// Read the command line. Ends the program for --help (0) and for usage errors (2).
Settings parse_settings(int argc, char** argv);

}  // namespace resnet
