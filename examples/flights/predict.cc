// As predict.py, as a program:
//
//   dtrain predict --config job.yaml --recipe config --filter --keep day,flight ./predict_flights FLIGHTS.csv OUTPUT
//     CHECKPOINTS
#include "dtrain/predict.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dtrain/checkpoint.h"
#include "examples/flights/net.h"

namespace {

// Preprocessing has brought the delays to mean 0 and deviation 1.
struct Scale {
  double mean = 0, deviation = 1;

  torch::Tensor minutes(const torch::Tensor& scaled) const { return scaled * deviation + mean; }
};

Scale scale_of_delays() {
  const char* path = std::getenv("DTRAIN_RECIPE");
  if (path == nullptr) throw std::runtime_error("DTRAIN_RECIPE is not set: use dtrain predict --recipe");
  std::ifstream file(path);
  const auto recipe = nlohmann::json::parse(file);
  for (const auto& found : recipe.at("statistics"))
    if (found.at("column") == "arr_delay") return {found.at("mean"), found.at("deviation")};
  throw std::runtime_error(std::string(path) + " says nothing of arr_delay");
}

dtrain::Predictor make(const std::vector<std::string>& arguments) {
  const std::string folder = arguments.empty() ? "" : arguments[0];
  const auto newest = dtrain::newest_checkpoint(folder);
  if (!newest)
    throw std::runtime_error("'" + folder + "' has no checkpoints; name the folder that training has filled");
  flights::Net net;
  dtrain::load_weights(*net, *newest);
  dtrain::Predictor predictor;
  predictor.columns = {"arr_delay"};
  predictor.matrices = flights::matrices();
  predictor.copied = {"day", "flight"};
  predictor.predict = [net, scale = scale_of_delays()](const dtrain::InputRows& rows) mutable -> dtrain::ResultColumns {
    const torch::InferenceMode guard;
    const torch::Tensor said = net(rows.at("numbers"), rows.at("names").to(torch::kLong));
    return {{"minutes", scale.minutes(rows.at("arr_delay"))}, {"predicted", scale.minutes(said)}};
  };
  return predictor;
}

}  // namespace

int main(int argc, char** argv) { return dtrain::predict_main(argc, argv, make); }
