#include "cli/estimate/estimate.h"

#include <algorithm>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_files.h"
#include "cli/estimate/estimate_strategy.h"
#include "cli/estimate/estimate_text.h"
#include "cli/machine/file_facts.h"

namespace dtrain::cli {
namespace {

constexpr int kNothingFits = 1;

// Buffers of whole numbers are no parameters.
bool is_floating(const CkptTensor& tensor) { return tensor.type.starts_with('F') || tensor.type.starts_with("BF"); }

// The file has so many, so the number is in bounds, whatever the shape says.
std::int64_t elements_of(const CkptTensor& tensor) {
  return static_cast<std::int64_t>(tensor.bytes * 8 / ckpt_bits(tensor.type));
}

// A checkpoint of dtrain has the optimizer's state too, in files of other names.
bool has_parameters(const Ckpt& ckpt, const CkptFile& file) {
  return !ckpt.manifest || !file.name.starts_with("optimizer");
}

Result<std::vector<EstimatedParameter>> parameters_at(const std::string& path) {
  auto ckpt = open_ckpt(path);
  if (!ckpt) return ckpt.error();
  if (const std::string damage = ckpt->first_damage(); !damage.empty()) return usage_error(damage);
  std::vector<EstimatedParameter> parameters;
  for (const CkptFile& file : ckpt->files) {
    if (!has_parameters(*ckpt, file)) continue;
    for (const CkptTensor& tensor : file.tensors)
      if (is_floating(tensor)) parameters.push_back({tensor.name, elements_of(tensor)});
  }
  if (parameters.empty()) return usage_error(printable(path, 400) + " has no parameters of a floating type");
  return parameters;
}

Result<EstimatedModel> model_for(const EstimateOptions& options, const std::optional<Strategy>& strategy) {
  if (options.path.empty()) return model_of(options.parameters, options.unit_count);
  auto parameters = parameters_at(options.path);
  if (!parameters) return parameters.error();
  return model_of(*parameters, options.units, strategy ? strategy->whole_elements : 0);
}

}  // namespace

int estimate_command(const std::vector<std::string>& words) {
  auto options = parse_estimate(words);
  if (!options) return fail(options.error());
  const auto strategy = strategy_for(*options, text_file);
  if (!strategy) return fail(strategy.error());
  auto model = model_for(*options, *strategy);
  if (!model) return fail(model.error());
  const std::vector<EstimateRow> rows = estimate_rows(*model, *options, *strategy);
  const int printed =
      print(options->json ? estimate_json(*model, *options, rows) : estimate_text(*model, *options, rows));
  const bool fits = std::any_of(rows.begin(), rows.end(), [](const EstimateRow& row) { return row.fits; });
  return printed != 0 || fits ? printed : kNothingFits;
}

}  // namespace dtrain::cli
