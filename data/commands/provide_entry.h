#pragma once
// The entry that a command asks for: found or built, in a folder or in an object store, as its request says.
#include <nlohmann/json.hpp>

#include "data/commands/data_command.h"
#include "data/entry/build_entry.h"

namespace dtrain::data {

// Prints where the entry is; returns the exit code. `command`: the word by which dtrain-data has got the request. A
// request with "fill" comes from here: what reads a store and is kept in one is made by a program of its own, because
// this process has threads by then.
int provide_entry(const char* command, const nlohmann::json& request, const EntryWanted& wanted,
                  const OpenObjects& open);

}  // namespace dtrain::data
