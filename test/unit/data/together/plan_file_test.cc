#include "data/together/plan_file.h"

#include <cstdint>
#include <initializer_list>
#include <regex>
#include <string>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::data {
namespace {

// A recipe, its input, and what is left of its work.
class LeftPlan {
 public:
  explicit LeftPlan(const nlohmann::json& more = nlohmann::json::object()) {
    folder_.write("rows.csv", "x\n1\n2\n");
    nlohmann::json text = {{"input", nlohmann::json::array({folder_ / "rows.csv"})}};
    text.update(more);
    recipe_ = parse_recipe(text);
    plan_ = plan_of(recipe_, kMemory, 2);
    plan_["digest"] = UINT64_MAX;
  }

  bool goes_on(std::size_t on_a_host, const nlohmann::json& changed = nlohmann::json::object()) const {
    nlohmann::json plan = plan_;
    plan.update(changed);
    folder_.write("plan.json", plan.dump());
    return plan_left(recipe_, folder_.path(), on_a_host).has_value();
  }
  const nlohmann::json& plan() const { return plan_; }
  const test::TempFolder& folder() const { return folder_; }

  static constexpr std::int64_t kMemory = std::int64_t{100} << 20;

 private:
  test::TempFolder folder_;
  Recipe recipe_;
  nlohmann::json plan_;
};

TEST_CASE("plan file: a limit that nobody has named is good for as many processes of a host, and for fewer") {
  const LeftPlan left;
  CHECK(left.goes_on(2));
  CHECK(left.goes_on(1));
  CHECK_FALSE(left.goes_on(3));
  const LeftPlan named(nlohmann::json{{"memory_limit_bytes", LeftPlan::kMemory}});
  CHECK(named.goes_on(2));
  CHECK(named.goes_on(3));
}

TEST_CASE("plan file: what is no plan of this work counts as none") {
  const LeftPlan left;
  for (const nlohmann::json& changed : std::initializer_list<nlohmann::json>{{{"memory_limit_bytes", "100"}},
                                                                             {{"memory_limit_bytes", nullptr}},
                                                                             {{"digest", "7"}},
                                                                             {{"on_a_host", "2"}},
                                                                             {{"format", "3"}},
                                                                             {{"format", 2}},
                                                                             {{"version", 3}},
                                                                             {{"version", "0.0"}},
                                                                             {{"files", 3}},
                                                                             {{"recipe", nlohmann::json::object()}}}) {
    INFO(changed.dump());
    bool goes_on = true;
    CHECK_NOTHROW(goes_on = left.goes_on(2, changed));
    CHECK_FALSE(goes_on);
  }
  left.folder().write("plan.json", "{");
  CHECK_FALSE(plan_left(parse_recipe(left.plan().at("recipe")), left.folder().path(), 2));
  CHECK(left.goes_on(2));
  left.folder().write("failed", "");
  CHECK_FALSE(left.goes_on(2));
}

TEST_CASE("plan file: one of this version that is no plan is damaged") {
  nlohmann::json format = LeftPlan().plan(), digest = format;
  format["format"] = 1;
  digest.erase("digest");
  for (const nlohmann::json& plan :
       {format, digest, nlohmann::json::parse("{", nullptr, /*allow_exceptions=*/false), nlohmann::json::array()}) {
    CHECK_FALSE(is_plan(plan));
    const std::string why = what_is_other(plan, "/cache/.work/plan.json");
    CHECK(why.starts_with("/cache/.work/plan.json is damaged, or "));
    CHECK(why.find("start again") != std::string::npos);
    CHECK(why.find("all nodes need the same versions") == std::string::npos);
  }
}

TEST_CASE("plan file: it is of a version of Arrow, too, and both are said") {
  CHECK(std::regex_match(own_version(), std::regex(R"(\d+\.\d+.* with Arrow \d+\.\d+\.\d+.*)")));
  nlohmann::json plan = LeftPlan().plan();
  CHECK(is_plan(plan));
  plan["version"] = "0.1 with Arrow 1.0.0";
  CHECK_FALSE(is_plan(plan));
  const std::string why = what_is_other(plan, "/cache/.work/plan.json");
  CHECK(why.starts_with("/cache/.work/plan.json is of dtrain 0.1 with Arrow 1.0.0, and the node "));
  CHECK(why.find("has dtrain " + own_version() + "; all nodes need the same versions") != std::string::npos);
  plan["version"] = 3;
  CHECK(what_is_other(plan, "").find("another version of dtrain") != std::string::npos);
}

}  // namespace
}  // namespace dtrain::data
