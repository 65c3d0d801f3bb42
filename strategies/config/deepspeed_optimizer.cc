// DeepSpeed's `optimizer`, and the sizes of a batch. See formats.h.
// Tested by test/unit/strategies/config/deepspeed_optimizer_test.cc.
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
  params.off("amsgrad", "dtrain does not have it; set it to false");
}

template <class Options>
OptimizerOptions adam_of(JsonReader& params) {
  Options options;
  read_adam(params, options);
  return options;
}

// What only DeepSpeed's classes have.
void read_own_of_adam(JsonReader& params) {
  params.only("bias_correction", true, "dtrain corrects the bias always; set it to true");
  params.only("fp32_optimizer_states", true,
              "the config leaves the state in float32; set it to true, and state_dtype in the program (optimizer.h)");
  params.without_meaning({"fused", "foreach", "torch_adam", "set_grad_none"});
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
  read_own_of_adam(params);
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
    case Known::adamw: {
      read_own_of_adam(params);
      // DeepSpeed's Adam decays weights as AdamW does, unless adam_w_mode is false.
      const bool decoupled = params.flag("adam_w_mode").value_or(true) || known == Known::adamw;
      return read_torch_optimizer(decoupled ? TorchOptimizer::adamw : TorchOptimizer::adam, params);
    }
    case Known::sgd:
      return read_torch_optimizer(TorchOptimizer::sgd, params);
    case Known::adagrad:
      return read_torch_optimizer(TorchOptimizer::adagrad, params);
    case Known::lamb:
      return lamb_of(params);
    case Known::muon:
      break;
  }
  return muon_of(params);
}

// A size of a batch that the config says, or nothing said: 0.
struct BatchSize {
  std::string key;
  std::int64_t& value;
};

void require_whole(const BatchSize& all, std::int64_t divisor, const std::string& divisor_is) {
  if (all.value % divisor == 0) return;
  refuse(fmt::format("{} is {}, which {} = {} does not divide; correct one of them", all.key, all.value, divisor_is,
                     divisor));
}

}  // namespace

OptimizerOptions read_torch_optimizer(TorchOptimizer which, JsonReader& params) {
  switch (which) {
    case TorchOptimizer::adam:
      return adam_of<Adam>(params);
    case TorchOptimizer::adamw:
      return adam_of<AdamW>(params);
    case TorchOptimizer::sgd:
      return sgd_of(params);
    case TorchOptimizer::adagrad:
      break;
  }
  return adagrad_of(params);
}

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

void read_batch(JsonReader& json, const JobSize& job, TrainingConfig& training, const BatchKeys& keys) {
  const BatchSize all{json.path_of(keys.all), training.global_batch};
  const BatchSize micro{json.path_of(keys.micro), training.micro_batch};
  const BatchSize steps{json.path_of(keys.steps), training.accumulation};
  const auto read = [&](std::string_view key, const BatchSize& size, std::int64_t says_nothing) {
    size.value = json.count(key, 1, kManyExamples).value_or(0);
    if (size.value > says_nothing) training.keys.push_back(size.key);
  };
  read(keys.all, all, 0);
  read(keys.micro, micro, 0);
  read(keys.steps, steps, 1);
  const std::int64_t ranks = job.ranks;
  if (ranks == 0) return;
  const auto product = [&] {
    return static_cast<double>(micro.value) * static_cast<double>(steps.value) * static_cast<double>(ranks);
  };
  const auto too_many = [&] { return product() > static_cast<double>(kManyExamples); };
  if (all.value > 0 && micro.value > 0 && steps.value > 0 &&
      (too_many() || micro.value * steps.value * ranks != all.value)) {
    refuse(fmt::format("{} is {}, but {} {} x {} {} x {} ranks are {}; remove one of the three, or correct it", all.key,
                       all.value, micro.key, micro.value, steps.key, steps.value, ranks, product()));
  }
  if (all.value == 0 && micro.value == 0) return;
  if (steps.value == 0 && all.value > 0 && micro.value > 0) {
    const std::int64_t together = micro.value * ranks;
    require_whole(all, together, fmt::format("{} {} x {} ranks", micro.key, micro.value, ranks));
    steps.value = all.value / together;
  }
  if (steps.value == 0) steps.value = 1;
  if (micro.value == 0) {
    if (static_cast<double>(steps.value) * static_cast<double>(ranks) > static_cast<double>(kManyExamples))
      refuse(fmt::format("{} is {}; choose a smaller number", steps.key, steps.value));
    require_whole(all, steps.value * ranks, fmt::format("{} {} x {} ranks", steps.key, steps.value, ranks));
    micro.value = all.value / (steps.value * ranks);
  }
  if (too_many()) refuse(fmt::format("{} and {} are too large together", micro.key, steps.key));
  all.value = micro.value * steps.value * ranks;
}

}  // namespace dtrain::config
