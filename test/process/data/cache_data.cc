// dtrain-data with a builder for tests: it copies each input into the split `train`, and its first byte into `test`. A
// file HOLD beside the first input is a FIFO: the builder says there that it has begun, and then stands still. A step
// {"fail": TEXT} is an error of its key. With a FIFO LIST in a folder, the list of its files takes for ever.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/commands/data_command.h"

namespace {

namespace fs = std::filesystem;
using dtrain::data::RowsOfSplits;

std::vector<std::string> files_of(const nlohmann::json& recipe) {
  std::vector<std::string> files;
  for (const std::string& word : recipe.at("input").get<std::vector<std::string>>()) {
    if (!fs::is_directory(word)) {
      files.push_back(word);
      continue;
    }
    if (fs::exists(fs::path(word) / "list")) {
      std::ofstream(fs::path(word) / "list") << "x";
      for (;;) ::pause();
    }
    for (const auto& each : fs::directory_iterator(word))
      if (each.path().extension() == ".csv") files.push_back(each.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

RowsOfSplits copy_inputs(const nlohmann::json& recipe, const std::vector<std::string>& inputs, const fs::path& folder,
                         bool) {
  for (const auto& step : recipe.value("steps", nlohmann::json::array()))
    if (step.contains("fail"))
      throw std::runtime_error("dtrain: dataset.steps[0].fail: " + step["fail"].get<std::string>());
  fs::create_directory(folder / "train");
  fs::create_directory(folder / "test");
  const fs::path beside = fs::path(inputs.at(0)).parent_path();
  std::ofstream(beside / "builds", std::ios::app) << "x";
  RowsOfSplits rows;
  for (const std::string& input : inputs) {
    fs::copy_file(input, folder / "train" / fs::path(input).filename());
    std::ofstream(folder / "test" / fs::path(input).filename()) << static_cast<char>(std::ifstream(input).get());
    rows["train"] += fs::file_size(input);
    ++rows["test"];
  }
  if (fs::exists(beside / "hold")) {
    std::ofstream(beside / "hold") << "x";
    for (;;) ::pause();
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc == 2 ? argv[1] : "";
  if (command == "preprocess") return dtrain::data::preprocess_command({files_of, copy_inputs});
  if (command == "cache") return dtrain::data::cache_command();
  return 2;
}
