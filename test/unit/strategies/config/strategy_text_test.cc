// Strategies as words and JSON.
#include "dtrain/strategy.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::string why_refused(const std::string& text) {
  try {
    parse_strategy(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a strategy is a word, a JSON string or a JSON object") {
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp}) {
    const std::string name = name_of(kind);
    CHECK(parse_strategy(name) == Strategy{.kind = kind});
    CHECK(parse_strategy('"' + name + '"') == Strategy{.kind = kind});
    CHECK(parse_strategy(R"({"type": ")" + name + "\"}") == Strategy{.kind = kind});
  }
  const Strategy all = parse_strategy(
      R"({"type": "fsdp", "reshard_after_forward": false, "prefetch": 3, "prefetch_bytes": 5000,
          "unit_elements": 1000, "whole_elements": 20, "one_copy": false,
          "shard_size": 4, "mixed_precision": {"param": "bfloat16", "reduce": "float32"}})");
  CHECK(all == Strategy{.kind = StrategyKind::fsdp,
                        .param = Precision::bfloat16,
                        .reduce = Precision::float32,
                        .reshard_after_forward = false,
                        .prefetch = 3,
                        .prefetch_bytes = 5000,
                        .unit_elements = 1000,
                        .whole_elements = 20,
                        .one_copy = false,
                        .shard_size = 4});
  CHECK(parse_strategy(R"({"type": "zero2", "bucket_bytes": 4096})").bucket_bytes == 4096);
  CHECK(parse_strategy(R"({"type": "zero2", "mixed_precision": {"output": "float32"}})").output == Precision::float32);
  CHECK(parse_strategy(R"({"type": "ddp", "find_unused_parameters": true})").find_unused_parameters);
  CHECK(parse_strategy(R"({"type": "zero1", "deterministic": true})").deterministic);
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp})
    CHECK(parse_strategy(R"({"type": ")" + name_of(kind) + R"(", "state_folder": "/scratch"})") ==
          Strategy{.kind = kind, .state_folder = "/scratch"});
  CHECK(parse_strategy(R"({"type": "fsdp", "reshard_after_forward": 8, "units": ["Block", "Head"]})") ==
        Strategy{.kind = StrategyKind::fsdp, .reshard_size = 8, .units = {"Block", "Head"}});
}

TEST_CASE("what a strategy cannot be is named") {
  CHECK_THAT(why_refused("zero9"), Catch::Contains("type 'zero9' is not known; one of ddp, zero1, zero2, fsdp"));
  CHECK_THAT(why_refused("{"), Catch::Contains("is no JSON"));
  CHECK_THAT(why_refused("[]"), Catch::Contains("must be a word"));
  CHECK_THAT(why_refused(R"({"type": 3})"), Catch::Contains("must be a word"));
  CHECK_THAT(why_refused(R"({"type": "ddp", "stage": 1})"),
             Catch::Contains("ddp does not have the key 'stage'; its keys are type, bucket_bytes"));
  CHECK_THAT(why_refused(R"({"type": "zero1", "prefetch": 1})"),
             Catch::Contains("zero1 does not have the key 'prefetch'"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "prefetch": -1})"),
             Catch::Contains("prefetch is -1, and must be a whole number from 0 to 64"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "prefetch": 18446744073709551615})"), Catch::Contains("prefetch is"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "prefetch_bytes": -1})"),
             Catch::Contains("prefetch_bytes is -1, and must be a whole number from 0 to"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "prefetch": 1.5})"), Catch::Contains("a whole number"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "whole_elements": -1})"), Catch::Contains("whole_elements is -1"));
  CHECK_THAT(why_refused(R"({"type": "zero2", "whole_elements": 1})"),
             Catch::Contains("zero2 does not have the key 'whole_elements'"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "reshard_after_forward": "no"})"),
             Catch::Contains("must be true, false or a number of ranks"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "reshard_after_forward": 1})"), Catch::Contains("a whole number from 2"));
  for (const char* folder : {"\"scratch\"", "\"\"", "true"})
    CHECK_THAT(why_refused(std::string(R"({"type": "ddp", "state_folder": )") + folder + "}"),
               Catch::Contains("must be the path of a folder, from / on"));
  for (const char* names : {"\"Block\"", "[]", "[1]"})
    CHECK_THAT(why_refused(std::string(R"({"type": "fsdp", "units": )") + names + "}"),
               Catch::Contains("must be a list of names"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "one_copy": "yes"})"), Catch::Contains("one_copy is \"yes\""));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "mixed_precision": "bfloat16"})"), Catch::Contains("mixed_precision is"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "mixed_precision": {"param": "fp8"}})"),
             Catch::Contains("mixed_precision.param 'fp8' is not known; one of same, float32, bfloat16, float16"));
  CHECK_THAT(why_refused(R"({"type": "fsdp", "mixed_precision": {"master": "float32"}})"),
             Catch::Contains("unknown key mixed_precision.master"));
}
