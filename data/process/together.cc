// Tested by test/process/data/nodes_test.py.
#include "data/process/together.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"
#include "data/base/random_bits.h"
#include "data/os/host_name.h"
#include "data/process/plan_file.h"
#include "data/process/recipe_job.h"
#include "data/shared/shared_files.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr int kSightLookMs = 50;
constexpr std::chrono::seconds kAfterFailure{3};  // for the others to see it
constexpr std::chrono::seconds kAfterWhole{30};   // for the others to read all results

fs::path work_folder(const fs::path& folder) { return folder / ".work"; }

// Of the units of the input, as this process sees it, and of how the work is divided.
std::uint64_t digest_of(const Source& source) {
  std::uint64_t bits = source.units().size();
  for (const Unit& unit : source.units())
    for (const auto fact : {static_cast<std::int64_t>(unit.file), unit.begin, unit.end, unit.bytes, unit.rows})
      bits = random_bits(bits, static_cast<std::uint64_t>(fact));
  for (const char c : source.schema().ToString()) bits = random_bits(bits, static_cast<unsigned char>(c));
  return bits;
}

class Together {
 public:
  Together(const Recipe& recipe, const fs::path& folder, std::int64_t memory, Seat seat)
      : shuffle_(recipe.shuffle),
        parts_(recipe.split.shares.size()),
        tasks_(work_folder(folder).string(), seat),
        exchange_(work_folder(folder), "rows." + random_name()),
        job_(recipe, folder, memory, &exchange_) {}

  // What all processes must agree about.
  std::uint64_t digest() const {
    std::uint64_t bits = digest_of(job_.source());
    for (const std::uint64_t fact :
         {std::uint64_t{job_.partitions()}, std::uint64_t{job_.buckets()}, static_cast<std::uint64_t>(job_.passes())})
      bits = random_bits(bits, fact);
    return bits;
  }

  void run() {
    const int last = job_.passes() - 1;
    for (int pass = 0; pass < last; ++pass) gather(pass);
    const std::string phase = fmt::format("pass-{}", last);
    if (!shuffle_) return write_in_order(phase);
    std::vector<RecipeJob::Blocks> blocks(job_.partitions());
    share(
        phase, job_.partitions(),
        [&](std::size_t partition, Packer& result, const RecipeJob::Told& told) {
          const RecipeJob::Blocks made = job_.scatter_rows(partition, told);
          result.put(job_.rows_read(partition));
          result.put(static_cast<std::uint64_t>(made.size()));
          for (const BatchStore::Kept& each : made) result.put_text(exchange_.packed(each));
        },
        [&](std::size_t partition, Unpacker& result) {
          count(last, result.get<std::int64_t>());
          for (auto left = result.get<std::uint64_t>(); left > 0; --left)
            blocks[partition].push_back(exchange_.unpacked(result.text()));
        });
    write_buckets(blocks);
  }

  // After run().
  ProcessReport finish() {
    for (const auto& [place, rows] : written_) job_.files().closed(place.part, place.number, rows);
    return job_.finish(rows_read_);
  }

 private:
  void share(const std::string& phase, std::size_t count,
             const std::function<void(std::size_t, Packer&, const RecipeJob::Told&)>& work,
             const std::function<void(std::size_t, Unpacker&)>& take) {
    exchange_.reopen();
    tasks_.share(
        phase, count, job_.threads(),
        [&](std::size_t part, const TaskFolder::Touch& touch) {
          Packer result;
          work(part, result, touch);
          exchange_.flush();
          return result.take();
        },
        [&](std::size_t part, std::string_view bytes) {
          Unpacker result(bytes);
          take(part, result);
        });
  }

  // The first pass reads everything; others may find rows that wait.
  void count(int pass, std::int64_t rows) { rows_read_ += pass == 0 ? rows : 0; }

  void gather(int pass) {
    Statistics& all = job_.statistics();
    share(
        fmt::format("pass-{}", pass), job_.partitions(),
        [&](std::size_t partition, Packer& result, const RecipeJob::Told& told) {
          const auto found = job_.statistics_of(partition);
          job_.gather(partition, pass, *found, told);
          result.put(job_.rows_read(partition));
          result.put_text(found->packed(pass));
        },
        [&](std::size_t, Unpacker& result) {
          count(pass, result.get<std::int64_t>());
          all.add_packed(pass, result.text());
        });
    for (const std::size_t operation : all.compared_in(pass))
      share(
          fmt::format("compare-{}", operation), all.compare_parts(operation),
          [&](std::size_t part, Packer& result, const RecipeJob::Told&) {
            result.put_text(all.compare_part(operation, part));
          },
          [&](std::size_t, Unpacker& result) { all.add_compared(operation, result.text()); });
    all.finish(pass);
  }

  // What is whole gets its name, unless another process has been faster.
  void publish(const fs::path& draft, const PartFile& file, RecipeJob::Place place) {
    if (file.rows() == 0) return;
    make_once(
        draft.string(), job_.files().path(place.part, place.number).string(), [](const std::string&) {}, Durable::no);
  }

  void take_written(RecipeJob::Place place, Unpacker& result) {
    written_.emplace_back(place, result.get<std::int64_t>());
  }

  void write_buckets(const std::vector<RecipeJob::Blocks>& blocks) {
    share(
        "write", job_.buckets(),
        [&](std::size_t bucket, Packer& result, const RecipeJob::Told& told) {
          const auto number = static_cast<std::uint32_t>(bucket);
          const fs::path draft = tasks_.draft();
          const auto file = job_.files().draft(draft);
          job_.write_bucket(number, blocks, *file, told);
          publish(draft, *file, job_.place_of(number));
          result.put(file->rows());
        },
        [&](std::size_t bucket, Unpacker& result) {
          take_written(job_.place_of(static_cast<std::uint32_t>(bucket)), result);
        });
  }

  void write_in_order(const std::string& phase) {
    const int last = job_.passes() - 1;
    share(
        phase, job_.partitions(),
        [&](std::size_t partition, Packer& result, const RecipeJob::Told& told) {
          std::vector<fs::path> drafts;
          std::vector<std::unique_ptr<PartFile>> files;
          for (std::size_t part = 0; part < parts_; ++part) {
            drafts.emplace_back(tasks_.draft());
            files.push_back(job_.files().draft(drafts.back()));
          }
          job_.write_rows(partition, files, told);
          result.put(job_.rows_read(partition));
          for (std::size_t part = 0; part < parts_; ++part) {
            publish(drafts[part], *files[part], {part, partition});
            result.put(files[part]->rows());
          }
        },
        [&](std::size_t partition, Unpacker& result) {
          count(last, result.get<std::int64_t>());
          for (std::size_t part = 0; part < parts_; ++part) take_written({part, partition}, result);
        });
  }

  const bool shuffle_;
  const std::size_t parts_;
  TaskFolder tasks_;
  BatchStore exchange_;
  RecipeJob job_;
  std::int64_t rows_read_ = 0;
  std::vector<std::pair<RecipeJob::Place, std::int64_t>> written_;
};

// An error of the process that has failed, as that has thrown it.
std::string failure_text(const std::string& recipe_key, const std::string& what) {
  Packer packer;
  packer.put_text(recipe_key);
  packer.put_text(what);
  return packer.take();
}

[[noreturn]] void throw_failure(const std::string& text) {
  Unpacker unpacker(text);
  const std::string key(unpacker.text()), what(unpacker.text());
  if (key.empty()) throw DataError(what);
  throw RecipeError(key, what.substr(std::min(what.size(), ("dtrain: " + key + ": ").size())));
}

std::string await_plan(const fs::path& folder, std::chrono::milliseconds patience) {
  const std::string path = (work_folder(folder) / "plan.json").string();
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (auto text = read_shared(path)) return *text;
    if (std::chrono::steady_clock::now() > until)
      throw DataError(
          fmt::format("dtrain: backend.cache_dir: the node {} does not see {}, where the nodes share their "
                      "work; name a folder that all nodes have",
                      host_name(""), folder.string()));
    ::poll(nullptr, 0, kSightLookMs);
  }
}

ProcessReport finished(Together& together, const fs::path& work) {
  together.run();
  // From here on the parts do not have the names by which others would find them.
  if (::unlink((work / "plan.json").c_str()) != 0) throw_of_path((work / "plan.json").string(), errno);
  ProcessReport report = together.finish();
  std::error_code error;
  fs::remove_all(work, error);
  if (error) fail_at(work.string(), error.message());
  return report;
}

// Whether the workers have had the time to see that nothing is left for them.
std::function<bool()> end_of_patience(const fs::path& work) {
  using Time = std::chrono::steady_clock;
  return [work, since = std::optional<Time::time_point>()]() mutable {
    const bool failed = is_there((work / "failed").string());
    if (!failed && !is_there((work / "whole").string())) return false;
    if (!since) since = Time::now();
    return Time::now() - *since >= (failed ? kAfterFailure : kAfterWhole);
  };
}

void throw_if_failed(const fs::path& work) {
  if (const auto why = read_shared((work / "failed").string())) throw_failure(*why);
}

void let_workers_do_it(const fs::path& folder, const fs::path& work, const StartWorkers& start) {
  if (is_there((work / "whole").string())) return;
  try {
    start(folder, end_of_patience(work));
  } catch (...) {
    throw_if_failed(work);  // says more
    if (!is_there((work / "whole").string())) throw;
  }
  throw_if_failed(work);
}

// All processes end. If that cannot be said to them, this error is thrown on, so that it is not lost.
void fail_all(const TaskFolder& tasks, const std::string& key, const std::string& what) {
  try {
    tasks.fail(failure_text(key, what));
  } catch (const NotThere&) {
    throw DataError(what);
  } catch (const std::exception&) {
    throw DataError(what);
  }
}

}  // namespace

bool says_disk_full(const std::string& what) {
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT},
                             [&](int error) { return what.find(std::generic_category().message(error)) != what.npos; });
}

ProcessReport process_together(const Recipe& recipe, const fs::path& folder, std::size_t on_a_host,
                               const StartWorkers& start) {
  must("Arrow", arrow::compute::Initialize());
  const fs::path work = work_folder(folder);
  try {
    auto plan = plan_left(recipe, work);
    const bool goes_on = plan.has_value();
    if (!goes_on) {
      clear_folder(folder);
      fs::create_directory(work);
      const auto hosts = static_cast<std::int64_t>(std::max<std::size_t>(on_a_host, 1));
      constexpr std::int64_t kLeast = std::int64_t{64} << 20;
      plan = plan_of(recipe, recipe.memory_limit_bytes ? *recipe.memory_limit_bytes
                                                       : std::max(memory_limit(recipe) / hosts, kLeast));
    }
    const auto limit = (*plan)["memory_limit_bytes"].get<std::int64_t>();
    auto together = std::make_unique<Together>(recipe, folder, limit, Seat{});
    const std::uint64_t digest = together->digest();
    if (goes_on && (*plan)["digest"] != digest) {  // what is there is of another input, or divided otherwise
      together.reset();
      clear_folder(folder);
      fs::create_directory(work);
      together = std::make_unique<Together>(recipe, folder, limit, Seat{});
    }
    (*plan)["digest"] = digest;
    if (!is_there((work / "plan.json").string()))
      link_content(work.string(), (work / "plan.json").string(), plan->dump(), Durable::no);
    let_workers_do_it(folder, work, start);
    return finished(*together, work);
  } catch (const NotThere& gone) {
    clear_folder(folder);
    fail_at(gone.path, "it has been removed while it was needed");
  } catch (const RecipeError&) {
    clear_folder(folder);
    throw;
  } catch (const DataError& error) {
    clear_folder(folder);
    const std::string what = error.what();
    if (!says_disk_full(what)) throw;
    constexpr const char* kCure = "make room, e.g. by `dtrain cache gc`, or choose another cache_dir";
    const std::string text = fmt::format("{}; the disk is full: {}", what, kCure);
    throw DataError(text);
  } catch (...) {
    clear_folder(folder);
    throw;
  }
}

void work_together(const fs::path& folder, Seat seat, std::size_t on_a_host, std::chrono::milliseconds patience) {
  const std::string text = await_plan(folder, patience);
  const nlohmann::json plan = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!is_plan(plan))
    throw DataError(
        fmt::format("dtrain: {} is of another version of dtrain than that of the node {}, {}; all nodes need "
                    "the same",
                    (work_folder(folder) / "plan.json").string(), host_name(""), own_version()));
  const TaskFolder tasks(work_folder(folder).string(), seat);
  try {
    must("Arrow", arrow::compute::Initialize());
    Recipe recipe = parse_recipe(plan.at("recipe"));
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    if (!recipe.threads)
      recipe.threads =
          std::max<std::int64_t>(1, cores / static_cast<std::int64_t>(std::max<std::size_t>(on_a_host, 1)));
    check_files(recipe, plan.at("files"));
    Together together(recipe, folder, plan.at("memory_limit_bytes").get<std::int64_t>(), seat);
    if (plan.at("digest") != together.digest())
      throw DataError(
          fmt::format("dtrain: dataset.input: the node {} sees other rows in the files than the node that "
                      "began, or has another dtrain; {}",
                      host_name(""), kSameInput));
    together.run();
    link_content(work_folder(folder).string(), (work_folder(folder) / "whole").string(), "", Durable::no);
  } catch (const OtherFailed&) {
  } catch (const RecipeError& error) {
    fail_all(tasks, error.path, error.what());
  } catch (const DataError& error) {
    fail_all(tasks, "", error.what());
  }
}

}  // namespace dtrain::data
