// Tested by test/process/data/apply_test.py.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "data/base/number_in.h"
#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/cache/sha256.h"
#include "data/commands/data_command.h"
#include "data/commands/provide_entry.h"
#include "data/commands/request.h"
#include "data/commands/wanted_inputs.h"
#include "data/entry/build_child.h"

namespace dtrain::data {
namespace {

std::string text_of_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw CacheError(kUsageCode, path + ": this is a folder; name the recipe.json in it");
  if (::access(path.c_str(), R_OK) != 0)
    throw CacheError(kUsageCode, fmt::format("{}: the recipe cannot be read: {}", path, std::strerror(errno)));
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw CacheError(kUsageCode, path + ": the recipe cannot be read");
  return text;
}

// By way of a child, which has the threads that a store's client starts: this process forks again.
std::string text_of_object(const std::string& uri, const nlohmann::json& request, const OpenObjects& open) {
  const std::size_t slash = uri.rfind('/');
  if (!open || slash < uri.find("://") + 3) throw CacheError(kUsageCode, uri + ": the recipe cannot be read");
  return said_by_child([&] {
    const auto store = open(uri.substr(0, slash), request.value("credentials", nlohmann::json::object()));
    const auto text = store->read(uri.substr(slash + 1));
    if (!text) throw CacheError(kUsageCode, uri + ": there is no such object");
    return *text;
  });
}

}  // namespace

int apply_command(const Processor& processor, const ApplyFill& fill, const OpenObjects& open) {
  return with_request([&](const nlohmann::json& request) {
    const std::string file = request.at("recipe").get<std::string>();
    const std::string text = is_store_uri(file) ? text_of_object(file, request, open) : text_of_file(file);
    ApplyRequest asked{nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false),
                       file,
                       request.value("filter", false),
                       request.value("without", std::vector<std::string>()),
                       request.value("keep", std::vector<std::string>()),
                       number_in(request, "parallelism"),
                       number_in(request, "memory_limit_bytes"),
                       {},
                       request.value("quiet", false)};
    nlohmann::json files = {{"input", request.at("input")}};  // as a recipe has them
    const bool in_store = is_in_store(files);
    EntryWanted wanted;
    wanted.inputs = wanted_inputs(processor, files, InputsBy::mtime);
    for (const CacheInput& input : wanted.inputs) asked.input.push_back(input.path);
    wanted.recipe = {{"apply", sha256_of(text)}, {"filter", asked.filter}, {"without", asked.without}};
    if (!asked.keep.empty()) wanted.recipe["keep"] = asked.keep;
    wanted.key = cache_key(wanted.recipe, wanted.inputs);
    nlohmann::json with_files = request;
    with_files["dataset"] = files;  // the cache may be beside them
    files["input"] = asked.input;
    wanted.build = [&](const std::filesystem::path& folder) {
      RowsOfSplits rows = {{"rows", fill(asked, folder)}};
      if (in_store) check_objects_unchanged(processor, files, wanted.inputs);
      return rows;
    };
    wanted.before_build = nodes_question(request);
    wanted.say = say_unless(request);
    return provide_entry("apply", with_files, wanted, open);
  });
}

}  // namespace dtrain::data
