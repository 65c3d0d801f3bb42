#include "launcher/logs/round_files.h"

#include "launcher/logs/log_tree.h"

namespace dtrain::launcher {
namespace {

Result<std::shared_ptr<LineCopy>> open_copy(const std::string& path, const std::vector<std::string>& texts) {
  if (texts.empty()) return std::shared_ptr<LineCopy>();
  auto file = create_log_file(path);
  if (!file) return file.error();
  return std::make_shared<LineCopy>(LineCopy{std::move(*file), path, std::make_shared<const TextSearch>(texts)});
}

}  // namespace

Result<void> RoundFiles::open(const JobSpec& spec, const std::string& attempt) {
  if (attempt == attempt_) return {};
  attempt_ = attempt;
  out_ = err_ = nullptr;
  if (attempt.empty()) return {};
  auto out = open_copy(attempt + "/filtered_stdout.log", spec.duplicate_stdout_filters);
  if (!out) return out.error();
  auto err = open_copy(attempt + "/filtered_stderr.log", spec.duplicate_stderr_filters);
  if (!err) return err.error();
  out_ = std::move(*out);
  err_ = std::move(*err);
  return {};
}

}  // namespace dtrain::launcher
