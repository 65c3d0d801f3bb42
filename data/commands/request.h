#pragma once
// A command's request on standard input, and how the command ends.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/cache/gc_plan.h"
#include "data/commands/data_command.h"

namespace dtrain::data {

// Runs the command; returns its exit code. An error is said on stderr, with FILE:LINE where its key has one. A signal
// ends this process.
int with_request(const std::function<int(const nlohmann::json& request)>& command);

// One line on stderr.
void say_line(const std::string& line);
// The same, or nothing if the request is to be quiet about what is no error.
std::function<void(const std::string&)> say_unless(const nlohmann::json& request);
// On stdout. The exit code: 125 if it did not reach its reader.
int print_text(const std::string& text);

// With "asks_nodes" in the request: asks whoever has started this program whether the nodes of the job see a folder
// (data_command.h). CacheError: they do not, which has been said. Without it: empty.
std::function<void(const std::filesystem::path& folder)> nodes_question(const nlohmann::json& request);

// `cache_dir` of the request, else where the first input lies.
std::filesystem::path cache_asked(const nlohmann::json& request);
// The same as a whole path. Workers and other programs learn where the entry is by JSON, which has no other names than
// those in UTF-8. CacheError.
std::filesystem::path cache_to_name(const nlohmann::json& request);
// Of `dtrain cache gc`.
GcLimits gc_limits(const nlohmann::json& request);
// What may not be removed is said, with its code; the rest is removed. Whether it is gone.
bool remove_or_say(const std::function<bool()>& remove, int& code);
// `made`: CacheMeta::made.
std::chrono::seconds age_of_entry(std::int64_t made);
// Whether the cache is in an object store.
bool cache_is_in_store(const nlohmann::json& request);
// Nullptr: it is a folder.
std::unique_ptr<ObjectStore> store_asked(const nlohmann::json& request, const OpenObjects& open);

// Of these keys, those that begin with a word each. CacheError: none does, or more than one.
std::vector<std::string> keys_meant(const std::vector<std::string>& all, const std::vector<std::string>& words);

}  // namespace dtrain::data
