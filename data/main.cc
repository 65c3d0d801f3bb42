// dtrain-data: what needs Arrow, and runs without torch. `dtrain` starts it; its own command line is for developers.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/apply/apply.h"
#include "data/cache/cache_error.h"
#include "data/commands/data_command.h"
#include "data/objects/arrow_objects.h"
#include "data/process/process.h"
#include "data/script/script_job.h"
#include "data/source/input_files.h"
#include "data/together/process_command.h"
#include "data/together/together.h"
#include "dtrain/data_errors.h"

namespace {

using Words = std::span<const std::string_view>;
using dtrain::data::RowsOfSplits;

template <class Work>
auto with_codes(const Work& work) {
  try {
    return work();
  } catch (const dtrain::data::RecipeError& error) {
    throw dtrain::data::CacheError(dtrain::data::kUsageCode, error.what());
  } catch (const dtrain::DataError& error) {
    throw dtrain::data::CacheError(dtrain::data::kDamagedCode, error.what());
  }
}

std::vector<dtrain::data::CacheInput> files_and_objects(const nlohmann::json& text) {
  return with_codes([&] {
    const dtrain::data::Recipe recipe = dtrain::data::parse_recipe(text);
    std::vector<dtrain::data::CacheInput> found;
    for (auto& file : dtrain::data::input_files(recipe.input, recipe.format).files)
      found.push_back({std::move(file.path), file.bytes, file.mtime_ns, {}});
    return found;
  });
}

std::vector<std::string> files_of_recipe(const nlohmann::json& text) {
  std::vector<std::string> paths;
  for (auto& file : files_and_objects(text)) paths.push_back(std::move(file.path));
  return paths;
}

// fmt::print() would throw if standard error is closed or full.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

// On a terminal, a line that is written over. It is gone at the end, however that comes.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) {
    if (!quiet && ::isatty(STDERR_FILENO) == 1) sink_ = [this](const dtrain::data::Progress& now) { show(now); };
  }
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  const dtrain::data::ProgressSink& sink() const { return sink_; }
  void clear() {
    if (is_shown_) show({});
  }

 private:
  void show(const dtrain::data::Progress& now) {
    const std::string text = dtrain::data::progress_text(now);
    is_shown_ = !text.empty();
    say("\r\033[K" + text);
  }

  dtrain::data::ProgressSink sink_;
  bool is_shown_ = false;
};

std::uint64_t fill_by_applying(const dtrain::data::ApplyRequest& request, const std::filesystem::path& folder) {
  return with_codes([&] {
    const auto then = dtrain::data::parse_carried_out(request.recipe, request.recipe_file);
    const dtrain::data::ApplyAsked asked{request.filter, request.without, request.keep, request.parallelism,
                                         request.memory_limit_bytes};
    const ProgressLine line(request.quiet);
    const auto rows = dtrain::data::apply(then, asked, request.input, folder, line.sink());
    return static_cast<std::uint64_t>(rows);
  });
}

dtrain::data::Recipe recipe_of(const nlohmann::json& text, const std::vector<std::string>& files) {
  dtrain::data::Recipe recipe = dtrain::data::parse_recipe(dtrain::data::without_script(text));
  recipe.text = text;
  recipe.input = files;
  return recipe;
}

RowsOfSplits rows_of(const dtrain::data::ProcessReport& report) {
  RowsOfSplits rows;
  for (const auto& part : report.parts) rows[part.name] = static_cast<std::uint64_t>(part.rows);
  return rows;
}

RowsOfSplits fill_by_recipe(const nlohmann::json& text, const std::vector<std::string>& files,
                            const std::filesystem::path& folder, bool quiet) {
  return with_codes([&] {
    const ProgressLine line(quiet);
    return rows_of(dtrain::data::process(recipe_of(text, files), folder, line.sink()));
  });
}

RowsOfSplits fill_together(const nlohmann::json& text, const std::vector<std::string>& files,
                           const std::filesystem::path& folder, bool quiet, std::size_t on_a_host,
                           const dtrain::data::StartWorkers& start) {
  return with_codes([&] {
    ProgressLine line(quiet);
    dtrain::data::TogetherOptions options{on_a_host, line.sink()};
    if (!quiet)
      options.say = [&line](const std::string& text_of_line) {
        line.clear();
        say(text_of_line + "\n");
      };
    return rows_of(dtrain::data::process_together(recipe_of(text, files), folder, options, start));
  });
}

dtrain::data::Processor processor() { return {files_of_recipe, fill_by_recipe, fill_together, files_and_objects}; }

int work(Words words) {
  if (words.size() == 1) return dtrain::data::run_worker(std::filesystem::path(words.front()));
  say("usage: dtrain-data work FOLDER\n");
  return 2;
}

struct Command {
  std::string_view name;
  int (*run)(Words words);  // what follows the name. Returns the exit code
};

constexpr Command kCommands[] = {
    {"preprocess", [](Words) { return dtrain::data::preprocess_command(processor(), dtrain::data::open_objects); }},
    {"apply",
     [](Words) { return dtrain::data::apply_command(processor(), fill_by_applying, dtrain::data::open_objects); }},
    {"cache", [](Words) { return dtrain::data::cache_command(dtrain::data::open_objects); }},
    {"process", dtrain::data::run_process},
    {"work", work},
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (const Command& command : kCommands)
    if (!words.empty() && command.name == words.front()) return command.run(std::span(words).subspan(1));
  say(fmt::format("dtrain-data: {}: no such command\n", words.empty() ? "" : words.front()));
  return 2;
}
