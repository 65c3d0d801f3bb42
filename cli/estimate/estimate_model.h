#pragma once
// A model's parameters, divided into the units that fsdp gathers. Pure.
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "strategies/config/memory_estimate.h"

namespace dtrain::cli {

struct EstimatedParameter {
  std::string name;
  std::int64_t elements = 0;
};

struct EstimatedModel {
  config::ModelSize size;
  std::vector<std::string> patterns;  // of the units that were found or assumed, for people
};

// A unit is what names have up to the first number: "model.layers.0" of "model.layers.0.mlp.weight". With `patterns`,
// only such units. A parameter with at most `whole_elements` belongs to none (strategy.h). Errors: a pattern that fits
// no name.
Result<EstimatedModel> model_of(const std::vector<EstimatedParameter>& parameters,
                                const std::vector<std::string>& patterns, std::int64_t whole_elements = 0);
// `units` of one size: 0 is 32, as many as a model of 7 billion has.
EstimatedModel model_of(std::int64_t parameters, std::int64_t units);

}  // namespace dtrain::cli
