// Tested by test/process/data/predict_program_test.py.
#include "data/predict/predict_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "data/parquet/seconds_since.h"
#include "data/predict/group_rows.h"
#include "data/predict/part_folder.h"
#include "data/predict/predict_input.h"
#include "data/predict/result_rows.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr int kFailed = 1, kUsage = 2;

// fmt::print() would throw if standard error is closed or full.
void say_of_work(std::string_view text) {
  constexpr std::string_view kOwnName = "dtrain: ";  // errors of data begin so
  std::fputs(fmt::format("{}{}\n", text.starts_with(kOwnName) ? "" : kOwnName, text).c_str(), stderr);
}

std::size_t number_of(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  const std::string_view digits = text == nullptr ? "" : text;
  std::size_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return !digits.empty() && read.ec == std::errc() && read.ptr == digits.data() + digits.size() ? number : otherwise;
}

// This worker begins far from the others, which saves locks that are taken.
void begin_at_own_place(std::vector<Part>& left) {
  const std::size_t size = std::max<std::size_t>(1, number_of("WORLD_SIZE", 1)), rank = number_of("RANK", 0);
  const std::size_t begin = std::min(left.size(), rank * left.size() / size);
  std::rotate(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(begin), left.end());
}

class PredictWork {
 public:
  PredictWork(const PartFolder& folder, HostPredictor predictor)
      : folder_(folder), predictor_(std::move(predictor)), reader_(folder.files(), predictor_.wanted) {}

  void run(std::vector<Part> left) {
    begin_at_own_place(left);
    for (const Part& part : left) {
      const auto mine = folder_.claim(part);
      if (!mine) continue;
      PartFolder::OneTry one_try(folder_, part);
      work_on(part);
      one_try.settle();
      ++done_;
      rows_ += part.rows;
    }
  }

  std::string told(double seconds) const {
    return fmt::format("{} of {} row groups, {} rows, in {:.1f} s", done_, folder_.parts().size(), rows_, seconds);
  }

 private:
  void work_on(const Part& part) {
    GroupRows group = reader_.read(part);
    const auto copied = group.copied;
    bool taken = false;
    const auto take = [&](const HostColumns& columns) {
      taken = true;
      write(part, *result_table(folder_.words(part), part.rows, copied.get(), columns));
    };
    try {
      predictor_.predict(group.names, std::move(group.batch), take);
    } catch (...) {
      if (!taken) say_of_work("predict() failed on " + folder_.words(part));
      throw;
    }
  }

  void write(const Part& part, const arrow::Table& table) {
    check_result_schema(folder_.words(part), table, folder_.schema(schema_bytes(table)));
    folder_.commit(part, [&](const std::string& file) { write_result(file, table); });
  }

  const PartFolder& folder_;
  HostPredictor predictor_;
  GroupReader reader_;
  std::size_t done_ = 0;
  std::int64_t rows_ = 0;
};

void refuse_what_fails(const PartFolder& folder, const std::string& output) {
  const std::vector<Part> left = folder.left();
  if (left.empty()) return;
  if (!std::all_of(left.begin(), left.end(), [&](const Part& part) { return folder.has_failed(part); })) {
    if (folder.left().size() < left.size()) refuse_what_fails(folder, output);  // others have gone on meanwhile
    return;
  }
  for (const Part& part : left)
    say_of_work(fmt::format("{} has ended {} workers", folder.words(part), PartFolder::kMostTries));
  throw DataError(fmt::format(
      "dtrain: {} of {} row groups have no result; the others have theirs in {}. Starting again tries these again; "
      "with another program or input, choose another folder",
      left.size(), folder.parts().size(), output));
}

void work_in(const PartFolder& folder, const std::string& output, const std::function<HostPredictor()>& make) {
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<Part> left = folder.left();
  if (folder.done_before()) {
    if (!left.empty())
      throw DataError(fmt::format("dtrain: {}: {} is gone since the job was done; remove the folder", output,
                                  folder.result(left.front())));
    folder.finish();  // who was killed while it did so has left files
    return say_of_work(
        fmt::format("all {} row groups have their results in {} already", folder.parts().size(), output));
  }
  if (!left.empty()) {
    PredictWork work(folder, make());
    work.run(left);
    refuse_what_fails(folder, output);
    say_of_work(work.told(seconds_since(begun)));
  }
  if (folder.left().empty()) folder.finish();
}

}  // namespace

int predict_program(int argc, char** argv,
                    const std::function<HostPredictor(const std::vector<std::string>& arguments)>& make) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() < 3) {
    say_of_work(fmt::format("usage: {} INPUT OUTPUT [ARGUMENT...]", words.empty() ? "PROGRAM" : words[0]));
    return kUsage;
  }
  const std::string& output = words[2];
  try {
    PartsPlan plan;
    plan.script = digest_of_program("/proc/self/exe");
    plan.arguments.assign(words.begin() + 3, words.end());
    plan.files = predict_input(words[1], output);
    const PartFolder folder(output, plan, words[0], row_groups_of);
    try {
      work_in(folder, output, [&] { return make({words.begin() + 3, words.end()}); });
    } catch (const NotThere& gone) {
      if (folder.is_finished()) return 0;  // another process has found the work done
      throw;
    }
    return 0;
  } catch (const NotThere& gone) {
    say_of_work(gone.path + ": it was removed while this job worked");
  } catch (const std::exception& error) {
    say_of_work(error.what());
  }
  return kFailed;
}

}  // namespace dtrain::data
