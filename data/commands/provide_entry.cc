// Tested by test/process/data/cache_test.py and object_cache_test.py.
#include "data/commands/provide_entry.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/commands/cache_text.h"
#include "data/commands/request.h"
#include "data/objects/build_object.h"

namespace dtrain::data {
namespace {

// The program that a builder's child becomes if it reads from a store: its request says which folder to fill.
void fill_here(const nlohmann::json& request, const EntryWanted& wanted) {
  if (wanted.key != request.at("key").get<std::string>())
    throw CacheError(kSystemCode, "an input has changed while the data set was built; start again when it is whole");
  fill_entry(request.at("folder").get<std::string>(), wanted);
}

// Says its errors itself.
[[noreturn]] void become_filler(std::string command, const std::string& request) {
  const OwnedFd file(::memfd_create("dtrain-request", MFD_CLOEXEC));
  if (!file) throw_system("memfd_create", errno);
  write_over(file.get(), request, "memfd");
  std::string name = "dtrain-data";
  std::array<char*, 3> argv = {name.data(), command.data(), nullptr};
  if (::dup2(file.get(), STDIN_FILENO) >= 0) ::execv("/proc/self/exe", argv.data());
  throw_system("/proc/self/exe", errno);
}

FillFolder filler_of(const char* command, const nlohmann::json& request, const EntryWanted& wanted) {
  const auto reads_store = [](const CacheInput& input) { return is_store_uri(input.path); };
  if (std::none_of(wanted.inputs.begin(), wanted.inputs.end(), reads_store)) return {};
  return [command, request, key = wanted.key](const std::filesystem::path& folder) {
    nlohmann::json again = request;
    again["fill"] = {{"folder", folder.string()}, {"key", key}};
    become_filler(command, again.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
}

}  // namespace

int provide_entry(const char* command, const nlohmann::json& request, const EntryWanted& wanted,
                  const OpenObjects& open) {
  if (request.contains("fill")) {
    fill_here(request["fill"], wanted);
    return 0;
  }
  const auto text = request.value("json", false) ? got_json : got_text;
  if (cache_is_in_store(request)) {
    const StopSignals signals;  // before a store starts threads
    const auto store = store_asked(request, open);
    const ObjectGot got = find_or_build(*store, wanted, signals, filler_of(command, request, wanted));
    return print_text(text(got.meta, got.uri, got.built));
  }
  const CacheFolder cache(cache_to_name(request), MakeFolder::yes);
  const StopSignals signals;
  const EntryGot got = find_or_build(cache, wanted, signals);
  return print_text(text(got.meta, got.folder.string(), got.built));
}

}  // namespace dtrain::data
