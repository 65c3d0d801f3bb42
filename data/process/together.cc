// Tested by test/process/data/nodes_test.py.
#include "data/process/together.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"
#include "data/base/random_bits.h"
#include "data/process/recipe_job.h"
#include "data/shared/shared_files.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr int kPlanFormat = 1;
constexpr int kSightLookMs = 50;

fs::path work_folder(const fs::path& folder) { return folder / ".work"; }

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

// Of the input, as this process sees it.
std::uint64_t digest_of(const Source& source) {
  std::uint64_t bits = source.units().size();
  for (const Unit& unit : source.units())
    for (const auto fact : {static_cast<std::int64_t>(unit.file), unit.begin, unit.end, unit.bytes, unit.rows})
      bits = random_bits(bits, static_cast<std::uint64_t>(fact));
  for (const char c : source.schema().ToString()) bits = random_bits(bits, static_cast<unsigned char>(c));
  return bits;
}

// What all do the same by.
nlohmann::json plan_of(const Recipe& recipe, std::int64_t memory) {
  nlohmann::json text = recipe.text;
  text["input"] = recipe.input;
  return {{"format", kPlanFormat}, {"recipe", std::move(text)}, {"memory_limit_bytes", memory}};
}

class Together {
 public:
  Together(const Recipe& recipe, const fs::path& folder, std::int64_t memory, Seat seat)
      : shuffle_(recipe.shuffle),
        parts_(recipe.split.shares.size()),
        tasks_(work_folder(folder).string(), seat),
        exchange_(work_folder(folder), "rows." + random_name()),
        job_(recipe, folder, memory, &exchange_) {}

  const Source& source() const { return job_.source(); }

  void run() {
    const int last = job_.passes() - 1;
    for (int pass = 0; pass < last; ++pass) gather(pass);
    const std::string phase = fmt::format("pass-{}", last);
    if (!shuffle_) return write_in_order(phase);
    std::vector<RecipeJob::Blocks> blocks(job_.partitions());
    share(
        phase, job_.partitions(),
        [&](std::size_t partition, Packer& result) {
          const RecipeJob::Blocks made = job_.scatter_rows(partition, {});
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
  void share(const std::string& phase, std::size_t count, const std::function<void(std::size_t, Packer&)>& work,
             const std::function<void(std::size_t, Unpacker&)>& take) {
    exchange_.reopen();
    tasks_.share(
        phase, count, job_.threads(),
        [&](std::size_t part) {
          Packer result;
          work(part, result);
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
        [&](std::size_t partition, Packer& result) {
          const auto found = job_.statistics_of(partition);
          job_.gather(partition, pass, *found, {});
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
          [&](std::size_t part, Packer& result) { result.put_text(all.compare_part(operation, part)); },
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
        [&](std::size_t bucket, Packer& result) {
          const auto number = static_cast<std::uint32_t>(bucket);
          const fs::path draft = tasks_.draft();
          const auto file = job_.files().draft(draft);
          job_.write_bucket(number, blocks, *file);
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
        [&](std::size_t partition, Packer& result) {
          std::vector<fs::path> drafts;
          std::vector<std::unique_ptr<PartFile>> files;
          for (std::size_t part = 0; part < parts_; ++part) {
            drafts.emplace_back(tasks_.draft());
            files.push_back(job_.files().draft(drafts.back()));
          }
          job_.write_rows(partition, files, {});
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

// What is left of the same work: its plan. A kill while files got their last numbers has left nothing of use.
std::optional<nlohmann::json> plan_left(const Recipe& recipe, const fs::path& work) {
  if (is_there((work / "failed").string()) || is_there((work / "ending").string())) return std::nullopt;
  const auto text = read_shared((work / "plan.json").string());
  if (!text) return std::nullopt;
  const nlohmann::json left = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!left.is_object() || !left.contains("memory_limit_bytes")) return std::nullopt;
  // A limit that nobody has named is what was free then.
  const auto memory = recipe.memory_limit_bytes.value_or(left["memory_limit_bytes"].get<std::int64_t>());
  nlohmann::json wanted = plan_of(recipe, memory);
  wanted["input_digest"] = left.value("input_digest", std::uint64_t{0});
  return wanted == left ? std::optional(left) : std::nullopt;
}

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
                      host_name(), folder.string()));
    ::poll(nullptr, 0, kSightLookMs);
  }
}

ProcessReport finished(Together& together, const fs::path& work) {
  together.run();
  link_content(work.string(), (work / "ending").string(), "", Durable::no);
  ProcessReport report = together.finish();
  std::error_code error;
  fs::remove_all(work, error);
  if (error) fail_at(work.string(), error.message());
  return report;
}

}  // namespace

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
    Together together(recipe, folder, (*plan)["memory_limit_bytes"].get<std::int64_t>(), {});
    const std::uint64_t digest = digest_of(together.source());
    if (goes_on && (*plan)["input_digest"] != digest)
      throw DataError("dtrain: dataset.input: it has changed since the work on it began; start again");
    (*plan)["input_digest"] = digest;
    if (!goes_on) link_content(work.string(), (work / "plan.json").string(), plan->dump(), Durable::no);
    start(folder);
    if (const auto why = read_shared((work / "failed").string())) throw_failure(*why);
    return finished(together, work);
  } catch (const NotThere& gone) {
    clear_folder(folder);
    fail_at(gone.path, "it has been removed while it was needed");
  } catch (const nlohmann::json::exception&) {
    clear_folder(folder);
    throw DataError("dtrain: dataset.input: a path is no text in UTF-8; name the file otherwise");
  } catch (...) {
    clear_folder(folder);
    throw;
  }
}

void work_together(const fs::path& folder, Seat seat, std::size_t on_a_host, std::chrono::milliseconds patience) {
  const std::string text = await_plan(folder, patience);
  const nlohmann::json plan = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!plan.is_object() || plan.value("format", 0) != kPlanFormat)
    throw DataError(fmt::format("dtrain: {} is of another version of dtrain than that of the node {}",
                                (work_folder(folder) / "plan.json").string(), host_name()));
  const TaskFolder tasks(work_folder(folder).string(), seat);
  try {
    must("Arrow", arrow::compute::Initialize());
    Recipe recipe = parse_recipe(plan.at("recipe"));
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    if (!recipe.threads)
      recipe.threads =
          std::max<std::int64_t>(1, cores / static_cast<std::int64_t>(std::max<std::size_t>(on_a_host, 1)));
    Together together(recipe, folder, plan.at("memory_limit_bytes").get<std::int64_t>(), seat);
    if (plan.at("input_digest") != digest_of(together.source()))
      throw DataError(
          fmt::format("dtrain: dataset.input: the node {} sees other files than the node that began; all "
                      "nodes must see the same input under the same paths",
                      host_name()));
    together.run();
  } catch (const OtherFailed&) {
  } catch (const RecipeError& error) {
    tasks.fail(failure_text(error.path, error.what()));
  } catch (const DataError& error) {
    tasks.fail(failure_text("", error.what()));
  }
}

}  // namespace dtrain::data
