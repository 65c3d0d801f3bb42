// dtrain estimate: what is typed, units from names, and what is printed. The formulas are tested by
// test/unit/strategies/config/memory_estimate_test.cc.
#include <nlohmann/json.hpp>

#include "cli/base/usage_error.h"
#include "cli/estimate/estimate_strategy.h"
#include "cli/estimate/estimate_text.h"
#include "test/support/catch.h"
#include "test/support/golden.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

Result<std::string> no_file(const std::string& path) { return usage_error(path + " is not there"); }

EstimateOptions typed(const Words& words) {
  auto options = parse_estimate(words);
  INFO((options ? "" : options.error().message));
  REQUIRE(options.ok());
  REQUIRE(strategy_for(*options, no_file));  // names the optimizer
  return *options;
}

// The rows of a model of a billion parameters, with a strategy.
std::vector<EstimateRow> rows_with(Words words) {
  words.insert(words.begin(), "--parameters=1B");
  auto options = parse_estimate(words);
  REQUIRE(options);
  const auto strategy = strategy_for(*options, no_file);
  INFO((strategy ? "" : strategy.error().message));
  REQUIRE(strategy);
  return estimate_rows(model_of(options->parameters, options->unit_count), *options, *strategy);
}

std::string why_no_strategy(Words words) {
  words.insert(words.begin(), "--parameters=1B");
  auto options = parse_estimate(words);
  REQUIRE(options);
  const auto strategy = strategy_for(*options, no_file);
  return strategy ? "accepted" : strategy.error().message;
}

std::string why(const Words& words) {
  auto options = parse_estimate(words);
  return options ? "accepted" : options.error().message;
}

// Two layers and an embedding, as a transformer names them.
std::vector<EstimatedParameter> transformer() {
  std::vector<EstimatedParameter> parameters{{"model.embed.weight", 1000}, {"model.norm.weight", 10}};
  for (const char* layer : {"model.layers.0", "model.layers.1"}) {
    parameters.push_back({std::string(layer) + ".attn.weight", 400});
    parameters.push_back({std::string(layer) + ".experts.0.weight", 300});
    parameters.push_back({std::string(layer) + ".experts.1.weight", 300});
  }
  return parameters;
}

EstimatedModel model_with(const Words& patterns) {
  auto model = model_of(transformer(), patterns);
  REQUIRE(model.ok());
  return *model;
}

}  // namespace

TEST_CASE("estimate: numbers of parameters and amounts of memory") {
  CHECK(*parse_parameters("7B") == 7'000'000'000);
  CHECK(*parse_parameters("7e9") == 7'000'000'000);
  CHECK(*parse_parameters("1.5M") == 1'500'000);
  CHECK(*parse_parameters("12") == 12);
  for (const char* wrong : {"", "B", "7BB", "-1", "0", "nan", "inf", "1e99", "7 B"})
    CHECK_FALSE(parse_parameters(wrong));
  CHECK(*parse_memory("80GB") == 80e9);
  CHECK(*parse_memory("1GiB") == 1024.0 * 1024 * 1024);
  CHECK(*parse_memory("500M") == 500e6);
  for (const char* wrong : {"", "80", "80gb", "-1GB", "GB", "inf"}) CHECK_FALSE(parse_memory(wrong));
}

TEST_CASE("estimate: what is typed") {
  const EstimateOptions options = typed(
      {"model.safetensors", "--nproc=8", "--nnodes", "2", "--optimizer", "sgd-momentum", "--memory=80GB", "--json"});
  CHECK(options.path == "model.safetensors");
  CHECK(options.ranks() == 16);
  CHECK(options.host_ranks() == 8);
  CHECK(options.state_numbers == 1);
  CHECK(options.memory == 80e9);
  CHECK(options.json);
  CHECK(typed({"--parameters", "7B", "--ranks", "4", "--state=bfloat16"}).state_bytes == 2);
  CHECK(typed({"--nproc", "2", "folder"}).host_ranks() == 2);
  CHECK(typed({"folder", "--ranks", "4"}).host_ranks() == 0);
  CHECK(typed({"--nproc", "2", "folder", "--units=a.N,b.N.c"}).units == Words{"a.N", "b.N.c"});

  CHECK_THAT(why({"--nproc=2"}), Contains("name the files of a model, or give the number"));
  CHECK_THAT(why({"x", "--parameters=7B", "--nproc=2"}), Contains("name the files of a model, or give the number"));
  CHECK_THAT(why({"x", "y", "--nproc=2"}), Contains("name one path; y is a second one"));
  CHECK_THAT(why({"x"}), Contains("say how many ranks there are"));
  CHECK_THAT(why({"x", "--ranks=2", "--nproc=2"}), Contains("but not both"));
  CHECK_THAT(why({"x", "--nproc=0"}), Contains("--nproc: "));
  CHECK_THAT(why({"x", "--nproc=2", "--optimizer=adams"}), Contains("--optimizer: "));
  CHECK_THAT(why({"x", "--nproc=2", "--state=float16"}), Contains("--state: "));
  CHECK_THAT(why({"x", "--nproc=2", "--memory=80"}), Contains("'80' is no amount of memory"));
  CHECK_THAT(why({"x", "--nproc=2", "--units=layers"}), Contains("a pattern has N where names have a number"));
  CHECK_THAT(why({"x", "--nproc=2", "--units=4"}), Contains("name the units of these files by a pattern"));
  CHECK_THAT(why({"--parameters=7B", "--nproc=2", "--units=a.N"}), Contains("needs names of parameters"));
  CHECK_THAT(why({"x", "--nprocs=2"}), Contains("unknown flag --nprocs; did you mean --nproc?"));
}

TEST_CASE("estimate: units are found in names, or named") {
  const EstimatedModel found = model_with({});
  CHECK(found.size.units == std::vector<std::int64_t>{1000, 1000});
  CHECK(found.size.rest == 1010);
  CHECK(found.size.largest == 1000);
  CHECK(found.patterns == Words{"2 of model.layers.N"});
  const EstimatedModel experts = model_with({"model.layers.N.experts.N"});
  CHECK(experts.size.units == std::vector<std::int64_t>{300, 300, 300, 300});
  CHECK(experts.size.rest == 1010 + 800);
  const EstimatedModel small = *model_of(transformer(), {}, 300);  // which belong to no unit then
  CHECK(small.size.units == std::vector<std::int64_t>{400, 400});
  CHECK(small.size.rest == 1010 + 4 * 300);
  auto wrong = model_of(transformer(), {"layers.N"});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "--units 'layers.N' fits no parameter; the first is model.embed.weight");
  const EstimatedModel flat = *model_of({{"weight", 5}, {"bias.0", 7}}, {});
  CHECK(flat.size.units.empty());
  CHECK(flat.size.rest == 12);
  CHECK(model_of(7'000'000'001, 0).size.units.size() == 32);
  CHECK(model_of(7'000'000'001, 0).size.elements() == 7'000'000'001);
  CHECK(model_of(10, 4).size.units == std::vector<std::int64_t>{2, 2, 2, 2});
}

TEST_CASE("estimate: the table is as reviewed") {
  const EstimateOptions options = typed({"--parameters=7.5B", "--nproc=8", "--nnodes=8", "--memory=80GB"});
  const EstimatedModel model = model_of(options.parameters, options.unit_count);
  const auto rows = estimate_rows(model, options);
  test::check_golden("cli/estimate.txt", estimate_text(model, options, rows));
  const EstimateOptions host = typed({"x", "--nproc=4", "--optimizer=sgd"});
  test::check_golden("cli/estimate-host.txt", estimate_text(model_with({}), host, estimate_rows(model_with({}), host)));
  const EstimateOptions disk = typed({"--parameters=7.5B", "--nproc=8", "--memory=80GB", "--state-on-disk"});
  test::check_golden("cli/estimate-disk.txt", estimate_text(model, disk, estimate_rows(model, disk)));
}

TEST_CASE("estimate: one strategy with its keys, or that of a config") {
  const auto one = rows_with({"--ranks=8", R"(--strategy={"type": "zero2", "deterministic": true})"});
  REQUIRE(one.size() == 1);
  CHECK(one[0].strategy == "zero2");
  CHECK(one[0].memory.live == 8e9);
  CHECK(rows_with({"--ranks=8", "--micro-batches=8", R"(--strategy={"type": "zero2", "deterministic": true})"})[0]
            .memory.live == 16e9);
  CHECK(rows_with({"--ranks=8", "--strategy=zero2"})[0].memory.live < 1e9);
  const auto host = rows_with({"--nproc=8", "--strategy=fsdp"});
  REQUIRE(host.size() == 2);
  CHECK(host[1].strategy == "fsdp, one copy (CPU)");
  CHECK(rows_with({"--nproc=8", R"(--strategy={"type": "fsdp", "one_copy": false})"}).size() == 1);
  const std::string sgd = R"(--strategy={"zero_optimization": {"stage": 1}, "fp16": {"enabled": true},
                             "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}})";
  CHECK(rows_with({"--ranks=8", sgd})[0].memory.optimizer == 4e9 / 8);
  CHECK(rows_with({"--ranks=8", sgd})[0].precision == "float16");
  CHECK(rows_with({"--ranks=8", "--optimizer=adamw", sgd})[0].memory.optimizer == 8e9 / 8);
  const auto checked = [](const std::string& checks) {
    const std::string text =
        R"(--strategy={"zero_optimization": {"stage": 2}, "bf16": {"enabled": true)" + checks + "}}";
    return rows_with({"--ranks=8", text})[0].memory.gradients;
  };
  CHECK(checked("") == 2e9 / 8);
  CHECK(checked(R"(, "check_grad_overflow": true)") == 4e9 / 8);  // a GradScaler reads them
  const EstimateOptions options = typed({"--parameters=1B", "--ranks=8", sgd});
  CHECK(options.optimizer == "sgd-momentum");
  CHECK_THAT(estimate_text(model_of(options.parameters, 0), options, {}), Contains("strategy: {"));

  CHECK_THAT(why_no_strategy({"--ranks=8", "--strategy=zero4"}),
             Contains("--strategy 'zero4': type 'zero4' is not known"));
  CHECK(why_no_strategy({"--ranks=8", "--strategy=./x.json"}) == "--strategy './x.json': ./x.json is not there");
  CHECK_THAT(why_no_strategy({"--ranks=8", R"(--strategy={"type": "fsdp", "shard_size": 3})"}),
             Contains("shard_size 3 does not divide the 8 ranks"));
  CHECK_THAT(
      why_no_strategy({"--ranks=8", R"(--strategy={"type": "fsdp", "shard_size": 4, "reshard_after_forward": 8})"}),
      Contains("reshard_after_forward 8 does not divide the 4 ranks"));
  CHECK_THAT(why_no_strategy({"--ranks=6", R"(--strategy={"type": "fsdp", "deterministic": true})"}),
             Contains("deterministic needs 1, 2, 4, 8, ... ranks, and there are 6"));
  CHECK_THAT(why_no_strategy({"--ranks=8", R"(--strategy={"type": "fsdp", "units": ["Block"]})"}), Contains("--units"));
  CHECK_THAT(why_no_strategy({"--ranks=8", "--micro-batches=2"}), Contains("only a --strategy with deterministic"));
  CHECK_THAT(
      why_no_strategy({"--ranks=8", "--micro-batches=3", R"(--strategy={"type": "fsdp", "deterministic": true})"}),
      Contains("--micro-batches: deterministic needs 1, 2, 4, 8"));
}

TEST_CASE("estimate: JSON has the same numbers") {
  const EstimateOptions options = typed({"x", "--ranks=4", "--memory=1MB"});
  const EstimatedModel model = model_with({});
  const auto rows = estimate_rows(model, options);
  const auto json = nlohmann::json::parse(estimate_json(model, options, rows));
  CHECK(json["parameters"] == 3010);
  CHECK_FALSE(json.contains("nodes"));
  REQUIRE(json["strategies"].size() == rows.size());
  CHECK(json["strategies"][0]["strategy"] == "ddp");
  CHECK(json["strategies"][0]["total"] == 16 * 3010);
  CHECK(json["strategies"][0]["on_disk"] == 0);
  CHECK(json["strategies"][0]["fits"] == true);
  CHECK(rows.size() == 7);  // ddp has no mixed precision, and --ranks says nothing of hosts
}

TEST_CASE("estimate: what does not fit is marked") {
  const EstimateOptions options = typed({"--parameters=1B", "--ranks=8", "--memory=5GB"});
  const EstimatedModel model = model_of(options.parameters, 0);
  for (const EstimateRow& row : estimate_rows(model, options)) {
    INFO(row.strategy << " " << row.precision);
    CHECK(row.fits == (row.memory.total() <= 5e9));
    CHECK(row.fits == (row.strategy == "fsdp" || (row.strategy == "zero2" && row.precision == "bfloat16")));
  }
}
