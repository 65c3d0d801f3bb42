// Tested by test/unit/cli/config/config_file_test.cc.
#include "cli/config/config_file.h"

#include <fmt/format.h>

#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_dataset.h"
#include "cli/config/config_json.h"
#include "cli/config/config_keys.h"
#include "cli/config/config_tree.h"
#include "cli/config/config_words.h"
#include "cli/parse/loader_text.h"
#include "strategies/config/formats.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kTrainer = "backend.trainer";

// The key of a value, and where that is.
struct At {
  const ConfigValue& value;
  std::string path;
};

class ConfigReader {
 public:
  ConfigReader(std::string file, bool for_rows) : file_(std::move(file)), for_rows_(for_rows), data_(file_) {}

  Result<ConfigFile> run(const ConfigValue& root) {
    if (root.kind != ConfigValue::Kind::map)
      return usage_error(fmt::format("{}: expected keys with values, such as nproc: 2", printable(file_)));
    if (auto done = section(root, ""); !done) return done.error();
    if (auto done = agree_on_local_mode(); !done) return done.error();
    size_by_nodes(root);
    say_what_is_skipped();
    const auto& engine = out_.values[static_cast<std::size_t>(FlagId::engine)];
    auto data = data_.request(engine ? engine->text : "", for_rows_);
    if (!data) return data.error();
    out_.data = std::move(*data);
    return std::move(out_);
  }

 private:
  std::string where(const At& at) const { return place_in(file_, at.value, at.path); }
  Error wrong(const At& at, const std::string& what) const { return usage_error(what).in(where(at)); }

  Result<void> section(const ConfigValue& map, const std::string& name) {
    for (const ConfigValue& value : map.items)
      if (auto done = entry(map, value, name); !done) return done;
    return {};
  }

  Result<void> entry(const ConfigValue& map, const ConfigValue& value, const std::string& name) {
    const At at{value, name.empty() ? value.key : fmt::format("{}.{}", name, value.key)};
    if (const ConfigKey* key = find_key(name, value.key)) return known(at, *key);
    if (!name.empty()) return unknown(at, name);
    if (const Flag* row = find_flag(value.key)) return of_flag(at, *row);
    if (map.find("backend") == nullptr || !is_ludwig_section(value.key)) return unknown_at_top(at, map);
    skipped_ += (skipped_.empty() ? "" : ", ") + value.key;
    return {};
  }

  Result<void> known(const At& at, const ConfigKey& key) {
    if (at.value.says_nothing()) return {};
    switch (key.meaning) {
      case KeyMeaning::section:
        return inner(at);
      case KeyMeaning::engine:
        return engine(at);
      case KeyMeaning::local_mode:
        return local_mode(at);
      case KeyMeaning::loader:
        return loader(at);
      case KeyMeaning::strategy:
        return trainer_strategy(at);
      case KeyMeaning::workers:
        return workers(at);
      case KeyMeaning::data:
        return data_.take_key(key, at.value, at.path);
      case KeyMeaning::cache_dir:
        return data_.take_cache_dir(at.value, at.path);
      case KeyMeaning::credentials:
        return credentials(at);
      case KeyMeaning::processor:
        return data_.take_processor(at.value, at.path);
      default:
        return of_flag(at, flag(key.flag));
    }
  }

  Result<void> inner(const At& at) {
    if (at.path == "dataset")
      if (auto done = data_.take_section(at.value); !done) return done;
    if (at.value.kind == ConfigValue::Kind::map) return section(at.value, at.path);
    // "backend: ray" is what its type is.
    if (at.path == "backend" && at.value.is_scalar()) return engine(at);
    return wrong(at, "expected a map of keys");
  }

  Result<void> credentials(const At& at) {
    auto said = parse_credentials(at.value, file_, at.path);
    if (!said) return said.error();
    if (!said->text.empty() || !said->file.empty()) out_.credentials = std::move(*said);
    return {};
  }

  Result<void> of_flag(const At& at, const Flag& row) {
    if (!may_be_in_file(row))
      return wrong(at, fmt::format("this is only for the command line; remove the key, and type {}", spelled(row)));
    if (at.value.says_nothing()) return {};
    auto text = flag_text(row, at.value);
    if (!text) return wrong(at, text.error().message);
    if (row.is_switch() && *text == "0") return {};  // as if it were not there: a flag can only switch it on
    return set(row.id, at, std::move(*text));
  }

  Result<void> set(FlagId id, const At& at, std::string text) {
    auto& value = out_.values[static_cast<std::size_t>(id)];
    if (value && value->text != text) return contradicts(at, *value);
    if (!value) value = RawValue{std::move(text), Origin::file, where(at)};
    return {};
  }

  Error contradicts(const At& at, const RawValue& other) const {
    return wrong(at, fmt::format("it contradicts {}; remove one of the two", other.where));
  }

  Result<void> engine(const At& at) {
    if (!at.value.is_scalar()) return wrong(at, "expected one word, such as local");
    if (auto fine = one_of(at.value.text, split(kBackendTypes, ',')); !fine) return wrong(at, fine.error().message);
    // Horovod's own launcher is MPI's, which counts by itself if it has started dtrain.
    return set(FlagId::engine, at, at.value.text == "horovod" ? "auto" : at.value.text);
  }

  Result<void> local_mode(const At& at) {
    const auto on = bool_of(at.value);
    if (!on) return wrong(at, "expected true or false");
    if (*on) return set(FlagId::engine, at, "local");
    not_local_ = where(at);
    return {};
  }

  Result<void> agree_on_local_mode() const {
    const auto& named = out_.values[static_cast<std::size_t>(FlagId::engine)];
    if (not_local_.empty() || !named || named->text != "local") return {};
    return usage_error(
        fmt::format("{}: false contradicts {}, which says local; remove one of the two", not_local_, named->where));
  }

  // As Ludwig's own readers take it (strategies/config/ludwig.cc): a map may name DeepSpeed or Accelerate.
  Result<void> trainer_strategy(const At& at) {
    if (at.value.kind == ConfigValue::Kind::list) return wrong(at, "expected a word or a map");
    const std::string& word = at.value.text;
    if (at.value.is_scalar() && word == "horovod")
      return wrong(at,
                   "horovod is the program's choice: write it with dtrain::hvd or Horovod itself, and remove the key");
    if (at.value.is_scalar() && word != "deepspeed" && word != "accelerate") return set(FlagId::strategy, at, word);
    return set(FlagId::strategy, at, fmt::format(R"({{"trainer":{{"strategy":{}}}}})", json_text(at.value)));
  }

  Result<void> loader(const At& at) {
    if (at.value.kind != ConfigValue::Kind::map) return wrong(at, "expected a map of keys");
    ConfigValue keys = at.value;
    keys.items.clear();
    for (ConfigValue item : at.value.items) {
      const At one{item, fmt::format("{}.{}", at.path, item.key)};
      const ConfigKey* key = find_key(at.path, item.key);
      if (key == nullptr) return unknown(one, at.path);
      // null is a window of its own: all rows.
      if (item.says_nothing() && key->name != "window_size_bytes") continue;
      if (keys.find(key->name) != nullptr) return wrong(one, fmt::format("{} is there twice", key->name));
      if (auto fine = check_loader_key(key->name, json_text(item)); !fine) return wrong(one, fine.error().message);
      item.key = key->name;
      keys.items.push_back(std::move(item));
    }
    if (keys.items.empty()) return {};
    const auto text = loader_text(json_text(keys));
    return text ? set(FlagId::loader, at, *text) : wrong(at, text.error().message);
  }

  Result<void> workers(const At& at) {
    if (!at.value.is_scalar()) return wrong(at, "expected a whole number, or auto");
    if (at.value.text != "auto")
      if (auto count = parse_number(at.value.text, 1, kMostRank); !count)
        return wrong(at, count.error().message + ", or auto");
    return set(FlagId::num_proc, at, at.value.text);
  }

  // Ludwig's rules, where nobody says how many workers there are.
  void size_by_nodes(const ConfigValue& root) {
    const ConfigValue* backend = root.find("backend");
    if (backend == nullptr || backend->says_nothing()) return;
    auto& all = out_.values[static_cast<std::size_t>(FlagId::num_proc)];
    if (!all && !out_.values[static_cast<std::size_t>(FlagId::nproc)])
      all = RawValue{"auto", Origin::file, where({*backend, backend->key})};
  }

  void say_what_is_skipped() {
    if (const std::string idle = data_.idle_key(for_rows_); !idle.empty())
      out_.notes.push_back(fmt::format("no effect: {} is for a section `dataset`, and the file has none", idle));
    if (!out_.credentials.where.empty() && !data_.is_in_store())
      out_.notes.push_back(fmt::format("no effect: {} is for a cache_dir in an object store, such as s3://BUCKET/cache",
                                       out_.credentials.where));
    if (skipped_.empty()) return;
    out_.notes.push_back(
        fmt::format("{}: dtrain reads `backend`, and leaves these sections of Ludwig's to the program: {}",
                    printable(file_), printable(skipped_, 400)));
  }

  Error unknown(const At& at, const std::string& name) const {
    if (at.value.key == "<<") return wrong(at, "dtrain merges no keys; write them out");
    const std::string near = nearest_key(name, at.value.key);
    if (!near.empty()) return wrong(at, fmt::format("unknown key; did you mean {}?", near));
    std::string known;
    for (const ConfigKey& key : config_keys())
      if (key.section == name) known += (known.empty() ? "" : ", ") + std::string(key.name);
    return wrong(at, fmt::format("unknown key; the keys here are {}", known));
  }

  Error unknown_at_top(const At& at, const ConfigValue& map) const {
    const config::Json json = config::Json::parse(json_text(map));
    const bool has_backend = map.find("backend") != nullptr;
    if (!has_backend && (config::is_deepspeed(json) || config::is_accelerate(json)))
      return usage_error(fmt::format(
          "{}: this is a config of {}, which says how workers share a model: give it, as JSON, to --strategy",
          printable(file_), config::is_deepspeed(json) ? "DeepSpeed" : "Accelerate"));
    if (at.value.key == "<<") return wrong(at, "dtrain merges no keys; write them out");
    if (is_ludwig_section(at.value.key))
      return wrong(at, "unknown key; a section of Ludwig's may only stand beside `backend`");
    const std::string near = nearest_key("", at.value.key);
    if (!near.empty()) return wrong(at, fmt::format("unknown key; did you mean {}?", near));
    for (const std::string_view section : {std::string_view("backend"), kTrainer})
      if (find_key(section, at.value.key) != nullptr)
        return wrong(at, fmt::format("unknown key; did you mean {}.{}?", section, printable(at.value.key)));
    return wrong(at, "unknown key; keys are the flags that `dtrain run --help=all` lists, and backend");
  }

  std::string file_;
  bool for_rows_;
  ConfigDataset data_;
  ConfigFile out_{};
  std::string skipped_{};
  std::string not_local_{};  // where local_mode is false
};

}  // namespace

Result<ConfigFile> read_config(const std::string& text, const std::string& file, bool for_rows) {
  const auto tree = read_config_tree(text, file);
  if (!tree) return tree.error();
  return ConfigReader(file, for_rows).run(*tree);
}

}  // namespace dtrain::cli
