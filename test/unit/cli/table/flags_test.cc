#include "cli/table/flags.h"

#include <set>

#include "test/support/catch.h"

namespace dtrain::cli {

TEST_CASE("every long name, letter and variable belongs to one flag") {
  std::multiset<std::string> names, variables;
  std::multiset<char> letters;
  for (const Flag& row : flags()) {
    names.emplace(row.name);
    if (!row.alias.empty()) names.emplace(row.alias);
    if (row.letter != 0) letters.insert(row.letter);
    for (const std::string& variable : {dtrain_variable(row), pet_variable(row), std::string(row.also)})
      if (!variable.empty()) variables.insert(variable);
  }
  for (const auto& name : names) CHECK(names.count(name) == 1);
  for (char letter : letters) CHECK(letters.count(letter) == 1);
  for (const auto& variable : variables) CHECK(variables.count(variable) == 1);
}

TEST_CASE("every flag is found by its names, with dashes and with underscores") {
  for (const Flag& row : flags()) {
    std::string underscored(row.name);
    for (char& c : underscored)
      if (c == '-') c = '_';
    CHECK(find_flag(row.name) == &row);
    CHECK(find_flag(underscored) == &row);
  }
  CHECK(find_flag("nproc_per-node") == &flag(FlagId::nproc));
  CHECK(find_flag("nprox") == nullptr);
  CHECK(find_flag("") == nullptr);
}

TEST_CASE("every flag says what it does, in one line that fits the help") {
  for (const Flag& row : flags()) {
    CHECK_FALSE(row.help.empty());
    CHECK(row.help.size() <= 60);
    CHECK_FALSE(row.help.ends_with('.'));
    if (!row.details.empty()) CHECK(row.details.ends_with('.'));
    if (row.group == Group::torchrun) CHECK(row.compat != Compat::none);
  }
}

TEST_CASE("torchrun's names are those of torchrun") {
  CHECK(torchrun_name(flag(FlagId::nproc)) == "nproc-per-node");
  CHECK(torchrun_name(flag(FlagId::run_id)) == "rdzv-id");
  CHECK(torchrun_name(flag(FlagId::module)) == "module");
  CHECK(torchrun_name(flag(FlagId::numa_binding)) == "numa-binding");
  CHECK(torchrun_name(flag(FlagId::contain)).empty());
  for (const Flag& row : flags())
    if (std::string name = torchrun_name(row); !name.empty()) CHECK(find_flag(name) == &row);
}

TEST_CASE("torchrun's variables are those of torchrun") {
  CHECK(pet_variable(flag(FlagId::nproc)) == "PET_NPROC_PER_NODE");
  CHECK(pet_variable(flag(FlagId::module)) == "PET_MODULE");
  CHECK(pet_variable(flag(FlagId::failure_grace)).empty());
  CHECK(pet_variable(flag(FlagId::numa_binding)).empty());
  CHECK(dtrain_variable(flag(FlagId::failure_grace)) == "DTRAIN_FAILURE_GRACE");
  CHECK(dtrain_variable(flag(FlagId::start_method)).empty());
  CHECK(dtrain_variable(flag(FlagId::help)).empty());
}

TEST_CASE("a prefix finds each flag once, by either of its names") {
  CHECK(flags_with_prefix("nproc").size() == 1);
  CHECK(flags_with_prefix("nproc_p").size() == 1);
  CHECK(flags_with_prefix("rdzv").size() == 4);
  CHECK(flags_with_prefix("x").empty());
}

}  // namespace dtrain::cli
