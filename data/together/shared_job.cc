// Tested by test/process/data/nodes_test.py.
#include "data/together/shared_job.h"

#include <fmt/format.h>

#include <memory>

#include "data/base/random_bits.h"
#include "data/shared/shared_files.h"

namespace dtrain::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWrite = "write";

std::string pass_name(int pass) { return fmt::format("pass-{}", pass); }
std::string comparison_name(std::size_t operation) { return fmt::format("compare-{}", operation); }

// Of the units of the input, as this process sees it, and of how the work is divided.
std::uint64_t digest_of(const Source& source) {
  std::uint64_t bits = source.units().size();
  for (const Unit& unit : source.units())
    for (const auto fact : {static_cast<std::int64_t>(unit.file), unit.begin, unit.end, unit.bytes, unit.rows})
      bits = random_bits(bits, static_cast<std::uint64_t>(fact));
  for (const char c : source.schema().ToString()) bits = random_bits(bits, static_cast<unsigned char>(c));
  return bits;
}

}  // namespace

fs::path work_folder(const fs::path& folder) { return folder / ".work"; }

SharedJob::SharedJob(const Recipe& recipe, const fs::path& folder, std::int64_t memory, Seat seat)
    : shuffle_(recipe.shuffle),
      folder_(folder),
      parts_(recipe.split.shares.size()),
      tasks_(work_folder(folder).string(), seat),
      exchange_(work_folder(folder), "rows." + random_name()),
      job_(recipe, folder, memory, &exchange_) {}

std::uint64_t SharedJob::digest() const {
  std::uint64_t bits = digest_of(job_.source());
  for (const std::uint64_t fact :
       {std::uint64_t{job_.partitions()}, std::uint64_t{job_.buckets()}, static_cast<std::uint64_t>(job_.passes())})
    bits = random_bits(bits, fact);
  return bits;
}

std::vector<Phase> SharedJob::phases() {
  const int last = job_.passes() - 1;
  std::vector<Phase> all;
  for (int pass = 0; pass < last; ++pass) {
    all.push_back({pass_name(pass), pass, "gathering", job_.partitions()});
    for (const std::size_t operation : job_.statistics().compared_in(pass))
      all.push_back({comparison_name(operation), pass, "comparing", job_.statistics().compare_parts(operation)});
  }
  all.push_back({pass_name(last), last, shuffle_ ? "transforming" : "writing", job_.partitions()});
  if (shuffle_) all.push_back({kWrite, job_.passes(), "writing", job_.buckets()});
  return all;
}

void SharedJob::run() {
  const int last = job_.passes() - 1;
  for (int pass = 0; pass < last; ++pass) gather(pass);
  const std::string phase = pass_name(last);
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

ProcessReport SharedJob::finish() {
  for (const auto& [place, rows] : written_) job_.files().closed(place.part, place.number, rows);
  return job_.finish(rows_read_);
}

std::set<fs::path> SharedJob::result(const ProcessReport& report) const {
  std::set<fs::path> all{folder_ / "recipe.json"};
  for (std::size_t part = 0; part < parts_; ++part)
    for (std::size_t number = 0; number < report.parts[part].files; ++number)
      all.insert(job_.files().path(part, number));
  return all;
}

void SharedJob::share(const std::string& phase, std::size_t count, const Work& work, const TakeResult& take) {
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
void SharedJob::count(int pass, std::int64_t rows) { rows_read_ += pass == 0 ? rows : 0; }

void SharedJob::gather(int pass) {
  Statistics& all = job_.statistics();
  share(
      pass_name(pass), job_.partitions(),
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
        comparison_name(operation), all.compare_parts(operation),
        [&](std::size_t part, Packer& result, const RecipeJob::Told&) {
          result.put_text(all.compare_part(operation, part));
        },
        [&](std::size_t, Unpacker& result) { all.add_compared(operation, result.text()); });
  all.finish(pass);
}

// What is whole gets its name, unless another process has been faster.
void SharedJob::publish(const fs::path& draft, const PartFile& file, RecipeJob::Place place) {
  if (file.rows() == 0) return;
  make_once(
      draft.string(), job_.files().path(place.part, place.number).string(), [](const std::string&) {}, Durable::no);
}

void SharedJob::take_written(RecipeJob::Place place, Unpacker& result) {
  written_.emplace_back(place, result.get<std::int64_t>());
}

void SharedJob::write_buckets(const std::vector<RecipeJob::Blocks>& blocks) {
  share(
      kWrite, job_.buckets(),
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

void SharedJob::write_in_order(const std::string& phase) {
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

}  // namespace dtrain::data
