#pragma once
// What was typed, for the dtrain that an engine starts. Pure.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/parse/parse.h"

namespace dtrain::cli {

// The flags but those that tell where the job goes, which is done by then; and the program.
std::vector<std::string> words_to_send(const RawOptions& raw);
// Of these flags, those that a config file has given: where it has them.
std::map<std::string, std::string> origins_to_send(const RawOptions& raw);
// At the other end, for errors.
void take_origins(const std::map<std::string, std::string>& origins, RawOptions& raw);
// Whether a flag tells where the job goes.
bool places_job(FlagId id);

std::vector<std::string> split_at_blanks(std::string_view text);

}  // namespace dtrain::cli
