// Tested by test/process/data/apply_test.py.
#include "data/apply/apply.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

#include "data/apply/known_then.h"
#include "data/arrow/arrow_calls.h"
#include "data/process/part_files.h"
#include "data/process/source_work.h"
#include "data/rows/operations.h"
#include "data/rows/parallel.h"
#include "data/source/source.h"

namespace dtrain::data {
namespace {

// The first row that is NaN; the length: none is.
std::int64_t first_nan(const arrow::Array& numbers) {
  const bool is_double = numbers.type_id() == arrow::Type::DOUBLE;
  for (std::int64_t row = 0; row < numbers.length(); ++row) {
    if (numbers.IsNull(row)) continue;
    const double value = is_double ? static_cast<const arrow::DoubleArray&>(numbers).Value(row)
                                   : static_cast<double>(static_cast<const arrow::FloatArray&>(numbers).Value(row));
    if (std::isnan(value)) return row;
  }
  return numbers.length();
}

// The columns of text files that count. None: all.
std::vector<std::string> names_to_read(const CarriedOut& then, const ApplyAsked& asked) {
  std::vector<std::string> names;
  for (const SourceColumn& column : then.input) names.push_back(column.name);
  if (!names.empty()) names.insert(names.end(), asked.keep.begin(), asked.keep.end());
  return names;
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

// Arrow has two types of text. Which one a column has is up to the format of its file, and here to that of training.
std::shared_ptr<arrow::DataType> type_then(const CarriedOut& then, const std::string& column,
                                           const std::shared_ptr<arrow::DataType>& now) {
  if (is_text(*now))
    for (const auto& text : {arrow::utf8(), arrow::large_utf8()})
      for (const SourceColumn& one : then.output)
        if (one.name == column && one.type_name == text->ToString()) return text;
  return now;
}

class Application {
 public:
  Application(const CarriedOut& then, const ApplyAsked& asked, const std::vector<std::string>& input,
              const std::filesystem::path& folder, const ProgressSink& progress)
      : recipe_(recipe_to_read(then, asked, input)),
        progress_(progress),
        source_(open_source(recipe_, names_to_read(then, asked))),
        plan_(plan_to_apply(then, asked, source_columns(source_->schema()), file_of(*source_))),
        growth_(growth_of(plan_, source_columns(source_->schema()))),
        work_(work_of(recipe_, *source_, growth_, memory_limit(recipe_))),
        operations_(plan_, types_read(*source_, plan_),
                    [this](std::size_t unit, std::int64_t row) { return source_->where(unit, row); }) {
    for (std::size_t i = 0; i < plan_.operations.size(); ++i)
      known_.push_back(known_then(plan_.operations[i], then.statistics, operations_.type_before(i)));
    for (const std::size_t column : plan_.read) columns_.insert(static_cast<int>(column));
    for (const OutputColumn& column : plan_.output)
      fields_.push_back(arrow::field(column.name, type_then(then, column.name, operations_.types()[column.slot])));
    check_types(then);
    for (const Operation& operation : plan_.operations)
      if (std::holds_alternative<Scale>(operation.how)) scaled_.push_back(&operation);
    files_ = std::make_unique<PartFiles>(folder, std::vector<std::string>{"rows"}, arrow::schema(fields_),
                                         recipe_.row_group_rows, work_.partition_count());
  }

  std::int64_t run() {
    for_each_task(work_.partition_count(), work_.threads, [&](std::size_t partition) {
      const auto file = files_->file(0, partition);
      for (std::size_t unit = work_.partitions[partition]; unit < work_.partitions[partition + 1]; ++unit) {
        file->add(*rows_of(unit));
        tell();
      }
      file->close();
      files_->closed(0, partition, file->rows());
    });
    const std::int64_t rows = files_->finish().front().rows;
    if (rows == 0) throw DataError("dtrain: --filter: the recipe's filters leave no row of the input");
    return rows;
  }

 private:
  static std::string file_of(const Source& source) {
    const std::string where = source.where(0, 0);
    return where.substr(0, where.rfind(", row "));
  }

  void check_types(const CarriedOut& then) const {
    for (const auto& field : fields_)
      for (const SourceColumn& column : then.output)
        if (column.name == field->name() && column.type_name != field->type()->ToString())
          fail_at(file_of(*source_), fmt::format("column '{}' becomes {}, and became {} where the recipe comes from; "
                                                 "write it with the type that it had there",
                                                 field->name(), field->type()->ToString(), column.type_name));
  }

  std::shared_ptr<arrow::RecordBatch> rows_of(std::size_t unit) const {
    Rows rows;
    rows.unit = unit;
    const Arrays read = source_->read(unit, {columns_.begin(), columns_.end()});
    for (const std::size_t column : plan_.read)  // one may have two slots
      rows.slots.push_back(
          read[static_cast<std::size_t>(std::distance(columns_.begin(), columns_.find(static_cast<int>(column))))]);
    std::vector<std::uint32_t> numbers(static_cast<std::size_t>(rows.slots.front()->length()));
    std::iota(numbers.begin(), numbers.end(), 0U);
    const auto count = static_cast<std::int64_t>(numbers.size());
    rows.numbers = std::make_shared<arrow::UInt32Array>(count, arrow::Buffer::FromVector(std::move(numbers)));
    for (std::size_t i = 0; i < plan_.operations.size(); ++i) operations_.apply(i, known_[i], rows);
    for (const Operation* operation : scaled_) check_numbers(*operation, rows);
    arrow::ArrayVector columns;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      columns.push_back(plain_array(fields_[i]->name(), {rows.slots[plan_.output[i].slot]}, fields_[i]->type()));
    return arrow::RecordBatch::Make(arrow::schema(fields_), rows.count(), columns);
  }

  // Training refuses NaN in such a column. Null stays null, as there.
  void check_numbers(const Operation& operation, const Rows& rows) const {
    const auto& slot = *rows.slots[operation.slots.front()];
    if (slot.type_id() != arrow::Type::DOUBLE && slot.type_id() != arrow::Type::FLOAT) return;  // a later step's
    const std::int64_t row = first_nan(slot);
    if (row == slot.length()) return;
    fail_at(source_->where(rows.unit, rows.numbers->Value(row)),
            fmt::format("column '{}' is NaN, and {} needs a number. Write one there, leave such rows out (--filter, if "
                        "the recipe has a filter for it), or the column (--without)",
                        operation.column, operation.path));
  }

  void tell() {
    if (!progress_) return;
    const std::lock_guard lock(progress_mutex_);
    progress_({0, 1, "applying the recipe", ++done_, source_->units().size()});
  }

  const Recipe recipe_;
  const ProgressSink& progress_;
  const std::unique_ptr<Source> source_;
  const ProcessPlan plan_;
  const Growth growth_;
  const WorkPlan work_;
  const Operations operations_;
  std::vector<Known> known_;
  std::set<int> columns_;
  std::vector<const Operation*> scaled_;
  arrow::FieldVector fields_;
  std::unique_ptr<PartFiles> files_;
  std::mutex progress_mutex_;
  std::size_t done_ = 0;
};

}  // namespace

std::int64_t apply(const CarriedOut& then, const ApplyAsked& asked, const std::vector<std::string>& input,
                   const std::filesystem::path& folder, const ProgressSink& progress) {
  must("Arrow", arrow::compute::Initialize());
  return Application(then, asked, input, folder, progress).run();
}

}  // namespace dtrain::data
