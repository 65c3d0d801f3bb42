// DeepSpeed's `optimizer` and the sizes of its batch. See formats.h.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::int64_t kManyExamples = std::int64_t{1} << 40;

template <class Options>
void read_common(JsonReader& params, Options& options) {
  options.lr = params.number("lr", 0, kNoLimit).value_or(options.lr);
  options.weight_decay = params.number("weight_decay", 0, kNoLimit).value_or(0);
}

template <class Options>
void read_adam(JsonReader& params, Options& options) {
  read_common(params, options);
  options.eps = params.number("eps", 0, kNoLimit).value_or(1e-8);
  if (const Json* betas = params.value("betas")) {
    const bool two = betas->is_array() && betas->size() == 2 && (*betas)[0].is_number() && (*betas)[1].is_number();
    if (!two) params.refuse_value("betas", "two numbers");
    options.betas = {(*betas)[0].get<double>(), (*betas)[1].get<double>()};
    const auto fits = [](double beta) { return beta >= 0 && beta < 1; };
    if (!fits(options.betas.first) || !fits(options.betas.second))
      params.refuse_value("betas", "two numbers from 0 to below 1");
  }
  params.only("bias_correction", true, "dtrain corrects the bias always; set it to true");
  params.off("amsgrad", "dtrain does not have it; set it to false");
  params.without_meaning({"fused", "foreach", "torch_adam", "fp32_optimizer_states", "set_grad_none"});
}

// As DeepSpeed does: its Adam decays weights as AdamW does, unless adam_w_mode is false.
OptimizerOptions adam_of(JsonReader& params, bool decoupled) {
  const bool is_adamw = params.flag("adam_w_mode").value_or(true) || decoupled;
  if (is_adamw) {
    AdamW options;
    read_adam(params, options);
    return options;
  }
  Adam options;
  read_adam(params, options);
  return options;
}

OptimizerOptions sgd_of(JsonReader& params) {
  Sgd options;
  read_common(params, options);
  options.momentum = params.number("momentum", 0, kNoLimit).value_or(0);
  options.dampening = params.number("dampening", 0, kNoLimit).value_or(0);
  options.nesterov = params.flag("nesterov").value_or(false);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    refuse(fmt::format("{} needs a momentum above 0 and no dampening", params.path_of("nesterov")));
  return options;
}

OptimizerOptions adagrad_of(JsonReader& params) {
  Adagrad options;
  read_common(params, options);
  options.lr_decay = params.number("lr_decay", 0, kNoLimit).value_or(0);
  options.initial_accumulator_value = params.number("initial_accumulator_value", 0, kNoLimit).value_or(0);
  options.eps = params.number("eps", 0, kNoLimit).value_or(1e-10);
  return options;
}

OptimizerOptions lamb_of(JsonReader& params) {
  Lamb options;
  read_adam(params, options);
  params.off({"max_coeff", "min_coeff"}, "dtrain's LAMB has no limits of the ratio; remove the key");
  return options;
}

OptimizerOptions muon_of(JsonReader& params) {
  Muon options;
  options.lr = params.number("lr", std::numeric_limits<double>::min(), kNoLimit).value_or(options.lr);
  options.weight_decay = params.number("weight_decay", 0, kNoLimit).value_or(0);
  options.momentum = params.number("momentum", 0, kNoLimit).value_or(options.momentum);
  options.nesterov = params.flag("nesterov").value_or(true);
  options.ns_steps = static_cast<int>(params.count("ns_steps", 1, 99).value_or(options.ns_steps));
  options.adamw.lr = options.lr;
  options.adamw.weight_decay = options.weight_decay;
  params.off({"muon_lr", "adam_lr", "betas", "eps", "ns_method"},
             "the config gives one rate to all parameters; remove the key, and choose in the program (optimizer.h)");
  return options;
}

enum class Known { adam, adamw, sgd, adagrad, lamb, muon };

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

OptimizerOptions read_params(Known known, JsonReader& params) {
  switch (known) {
    case Known::adam:
    case Known::adamw:
      return adam_of(params, known == Known::adamw);
    case Known::sgd:
      return sgd_of(params);
    case Known::adagrad:
      return adagrad_of(params);
    case Known::lamb:
      return lamb_of(params);
    case Known::muon:
      break;
  }
  return muon_of(params);
}

void require_whole(std::int64_t examples, std::int64_t divisor, std::string_view divisor_is) {
  if (examples % divisor == 0) return;
  refuse(fmt::format("train_batch_size is {}, which {} = {} does not divide; correct one of them", examples, divisor_is,
                     divisor));
}

}  // namespace

OptimizerOptions read_optimizer(JsonReader& json) {
  static const Json nothing = Json::object();
  const std::string type = json.word("type").value_or("");
  const std::string name = lower(type);
  const std::pair<const char*, Known> table[] = {{"adam", Known::adam}, {"adamw", Known::adamw},
                                                 {"sgd", Known::sgd},   {"adagrad", Known::adagrad},
                                                 {"lamb", Known::lamb}, {"muon", Known::muon}};
  const auto* const found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& each) { return name == each.first; });
  if (found == std::end(table))
    refuse(fmt::format("{} '{}' is not known; one of Adam, AdamW, SGD, Adagrad, Lamb, Muon", json.path_of("type"),
                       type.substr(0, 100)));
  json.without_meaning({"legacy_fusion"});
  const Json* given = json.value("params");
  JsonReader params(given != nullptr ? *given : nothing, json.path_of("params"));
  OptimizerOptions options = read_params(found->second, params);
  params.finish();
  json.finish();
  return options;
}

void read_batch(JsonReader& json, const JobSize& job, TrainingConfig& training) {
  std::int64_t& micro = training.micro_batch;
  std::int64_t& steps = training.accumulation;
  std::int64_t& all = training.global_batch;
  const std::pair<std::string_view, std::int64_t*> sizes[] = {
      {"train_batch_size", &all}, {"train_micro_batch_size_per_gpu", &micro}, {"gradient_accumulation_steps", &steps}};
  for (const auto& [key, size] : sizes) {
    *size = json.count(key, 1, kManyExamples).value_or(0);
    if (*size > 0 && !(size == &steps && steps == 1)) training.keys.push_back(json.path_of(key));
  }
  const std::int64_t ranks = job.ranks;
  if (ranks == 0) return;
  const auto too_many = [&] {
    return static_cast<double>(micro) * static_cast<double>(steps) * static_cast<double>(ranks) >
           static_cast<double>(kManyExamples);
  };
  if (all > 0 && micro > 0 && steps > 0 && (too_many() || micro * steps * ranks != all)) {
    refuse(
        fmt::format("train_batch_size is {}, but train_micro_batch_size_per_gpu {} x gradient_accumulation_steps {} x "
                    "{} ranks are {}; remove one of the three, or correct it",
                    all, micro, steps, ranks,
                    static_cast<double>(micro) * static_cast<double>(steps) * static_cast<double>(ranks)));
  }
  if (all == 0 && micro == 0) return;
  if (steps == 0 && all > 0 && micro > 0) {
    const std::int64_t together = micro * ranks;
    require_whole(all, together, fmt::format("train_micro_batch_size_per_gpu {} x {} ranks", micro, ranks));
    steps = all / together;
  }
  if (steps == 0) steps = 1;
  if (micro == 0) {
    if (static_cast<double>(steps) * static_cast<double>(ranks) > static_cast<double>(kManyExamples))
      refuse(fmt::format("gradient_accumulation_steps is {}; choose a smaller number", steps));
    require_whole(all, steps * ranks, fmt::format("gradient_accumulation_steps {} x {} ranks", steps, ranks));
    micro = all / (steps * ranks);
  }
  if (too_many()) refuse("train_micro_batch_size_per_gpu and gradient_accumulation_steps are too large together");
  all = micro * steps * ranks;
}

}  // namespace dtrain::config
