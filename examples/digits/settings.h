#pragma once
// The flags of `train`.
#include <cstdint>
#include <string>

namespace digits {

struct Settings {
  std::string data;  // digits.csv.gz
  double lr = 0.01;
  int epochs = 20;
  std::int64_t batch_size = 32;  // over all ranks
  std::uint64_t seed = 1;
  bool in_double = false;
  std::string loss_csv;  // empty: none
};

// Read the command line. Ends the program for --help (0) and for usage errors (2).
Settings parse_settings(int argc, char** argv);

}  // namespace digits
