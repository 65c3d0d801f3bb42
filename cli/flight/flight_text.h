#pragma once
// The story of a job's flight recorder, for people and as JSON. Pure.
#include <string>

#include "cli/flight/flight_story.h"

namespace dtrain::cli {

std::string flight_text(const FlightStory& story);
std::string flight_json(const FlightStory& story);

}  // namespace dtrain::cli
