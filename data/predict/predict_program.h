#pragma once
// A worker of `dtrain predict` that is a program: the work, from its command line to its exit code.
#include <functional>
#include <string>
#include <vector>

#include "data/predict/host_predictor.h"

namespace dtrain::data {

// PROGRAM INPUT OUTPUT [ARGUMENT...]. `make` is called once, if there is work; with the arguments.
int predict_program(int argc, char** argv,
                    const std::function<HostPredictor(const std::vector<std::string>& arguments)>& make);

}  // namespace dtrain::data
