// libyaml's events, put together to a tree. This is the only file that includes libyaml.
// Tested by test/unit/cli/config/config_tree_test.cc.
#include "cli/config/config_tree.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "launcher/engine_wire/json_line.h"

namespace dtrain::cli {
namespace {

constexpr int kDeepestConfig = 32;
// With those that aliases repeat: a small file may stand for a very large tree.
constexpr std::size_t kMostValues = 100000;
constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;
constexpr std::string_view kYamlTag = "tag:yaml.org,2002:";

std::string yaml_text(const yaml_char_t* text) { return text == nullptr ? "" : reinterpret_cast<const char*>(text); }

bool is_null_word(std::string_view word) {
  constexpr std::array<std::string_view, 5> kNulls = {"", "~", "null", "Null", "NULL"};
  return std::find(kNulls.begin(), kNulls.end(), word) != kNulls.end();
}

std::size_t count_values(const ConfigValue& value) {
  std::size_t count = 1;
  for (const ConfigValue& item : value.items) count += count_values(item);
  return count;
}

class YamlEvents {
 public:
  explicit YamlEvents(const std::string& text) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  }
  YamlEvents(const YamlEvents&) = delete;
  YamlEvents& operator=(const YamlEvents&) = delete;
  ~YamlEvents() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }

  // False: the text is no YAML.
  bool next() {
    yaml_event_delete(&event_);
    return yaml_parser_parse(&parser_, &event_) == 1;
  }
  const yaml_event_t& now() const { return event_; }
  int line() const { return static_cast<int>(event_.start_mark.line) + 1; }
  int line_of_problem() const {
    // The end of a construct that was never closed is the end of the file; where it begins helps more.
    const bool has_context = parser_.context != nullptr && parser_.problem_mark.line > parser_.context_mark.line;
    return static_cast<int>((has_context ? parser_.context_mark : parser_.problem_mark).line) + 1;
  }
  std::string problem() const {
    const std::string context = parser_.context == nullptr ? "" : std::string(parser_.context) + ", ";
    return context + (parser_.problem == nullptr ? "it cannot be read" : parser_.problem);
  }

 private:
  yaml_parser_t parser_{};
  yaml_event_t event_{};
};

class TreeReader {
 public:
  // `text` outlives this.
  TreeReader(const std::string& text, std::string file) : text_(text), events_(text), file_(std::move(file)) {}

  Result<ConfigValue> run() {
    ConfigValue root;
    if (document(root)) return root;
    return *error_;
  }

 private:
  bool fail(int line, const std::string& what) {
    error_ = usage_error(fmt::format("{}:{}: {}", printable(file_), line, what));
    return false;
  }

  bool next() {
    if (events_.next()) return true;
    const int line = events_.line_of_problem();
    if (begins_with_tab(line)) return fail(line, "the line begins with a tab; YAML wants blanks");
    return fail(line, fmt::format("this is no YAML: {}", printable(events_.problem())));
  }

  // Among the blanks at its begin.
  bool begins_with_tab(int line) const {
    std::size_t at = 0;
    for (int i = 1; i < line && at != text_.npos; ++i)
      if ((at = text_.find('\n', at)) != text_.npos) ++at;
    if (at == text_.npos) return false;
    const std::size_t first = text_.find_first_not_of(' ', at);
    return first != text_.npos && text_[first] == '\t';
  }

  bool document(ConfigValue& root) {
    if (!next() || !next()) return false;  // the stream, and its first document or its end
    if (events_.now().type == YAML_STREAM_END_EVENT) return true;
    if (!next() || !value(root, 1) || !next() || !next()) return false;
    if (events_.now().type == YAML_STREAM_END_EVENT) return true;
    return fail(events_.line(), "a second document begins here; a config is one document");
  }

  // The value that begins with the event at hand.
  bool value(ConfigValue& into, int depth) {
    if (into.line == 0) into.line = events_.line();
    if (depth > kDeepestConfig)
      return fail(events_.line(), fmt::format("nested deeper than {} levels", kDeepestConfig));
    if (++count_ > kMostValues) return fail(events_.line(), fmt::format("more than {} values", kMostValues));
    switch (events_.now().type) {
      case YAML_SCALAR_EVENT:
        return scalar(into);
      case YAML_SEQUENCE_START_EVENT:
        return list(into, depth);
      case YAML_MAPPING_START_EVENT:
        return map(into, depth);
      default:
        return alias(into);
    }
  }

  bool is_fine_tag(const yaml_char_t* tag, std::initializer_list<std::string_view> known) {
    const std::string text = yaml_text(tag);
    const bool fine =
        text.empty() || text == "!" || std::any_of(known.begin(), known.end(), [&](std::string_view name) {
          return text.starts_with(kYamlTag) && text.substr(kYamlTag.size()) == name;
        });
    return fine || fail(events_.line(), fmt::format("the tag {} means nothing here; remove it", printable(text)));
  }

  bool scalar(ConfigValue& into) {
    const auto& event = events_.now().data.scalar;
    if (!is_fine_tag(event.tag, {"str", "int", "float", "bool", "null"})) return false;
    const std::string tag = yaml_text(event.tag);
    into.text.assign(reinterpret_cast<const char*>(event.value), event.length);
    if (into.text.find('\0') != std::string::npos) return fail(events_.line(), "a value has a byte of 0");
    const bool is_text = event.style != YAML_PLAIN_SCALAR_STYLE || tag == "!" || tag.ends_with(":str");
    into.kind = is_text ? ConfigValue::Kind::text : ConfigValue::Kind::word;
    if (!is_text && is_null_word(into.text)) into.kind = ConfigValue::Kind::null;
    return keep(event.anchor, into);
  }

  bool list(ConfigValue& into, int depth) {
    const std::string anchor = yaml_text(events_.now().data.sequence_start.anchor);
    if (!is_fine_tag(events_.now().data.sequence_start.tag, {"seq"})) return false;
    into.kind = ConfigValue::Kind::list;
    open(anchor);
    while (next() && events_.now().type != YAML_SEQUENCE_END_EVENT)
      if (!value(into.items.emplace_back(), depth + 1)) return false;
    return !error_ && close(anchor, into);
  }

  bool map(ConfigValue& into, int depth) {
    const std::string anchor = yaml_text(events_.now().data.mapping_start.anchor);
    if (!is_fine_tag(events_.now().data.mapping_start.tag, {"map"})) return false;
    into.kind = ConfigValue::Kind::map;
    std::map<std::string, int> lines;
    open(anchor);
    while (next() && events_.now().type != YAML_MAPPING_END_EVENT) {
      if (events_.now().type != YAML_SCALAR_EVENT) return fail(events_.line(), "a key must be a word");
      const auto& event = events_.now().data.scalar;
      const std::string key(reinterpret_cast<const char*>(event.value), event.length);
      const auto [first, is_new] = lines.emplace(key, events_.line());
      if (!is_new)
        return fail(events_.line(),
                    fmt::format("the key {} is in line {} too; remove one", printable(key), first->second));
      ConfigValue& entry = into.items.emplace_back();
      entry.key = key;
      entry.line = events_.line();
      if (!next() || !value(entry, depth + 1)) return false;
    }
    return !error_ && close(anchor, into);
  }

  bool alias(ConfigValue& into) {
    const std::string name = yaml_text(events_.now().data.alias.anchor);
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      return fail(events_.line(), fmt::format("there is no anchor &{} above", printable(name)));
    if (!found->second) return fail(events_.line(), fmt::format("the anchor &{} is within itself", printable(name)));
    count_ += count_values(*found->second);
    if (count_ > kMostValues) return fail(events_.line(), fmt::format("more than {} values", kMostValues));
    into.kind = found->second->kind;
    into.text = found->second->text;
    into.items = found->second->items;
    return true;
  }

  void open(const std::string& anchor) {
    if (!anchor.empty()) anchors_[anchor] = std::nullopt;
  }
  bool close(const std::string& anchor, const ConfigValue& value) {
    if (!anchor.empty()) anchors_[anchor] = value;
    return true;
  }
  bool keep(const yaml_char_t* anchor, const ConfigValue& value) { return close(yaml_text(anchor), value); }

  const std::string& text_;
  YamlEvents events_;
  std::string file_;
  std::map<std::string, std::optional<ConfigValue>> anchors_{};  // nothing: its value has not ended
  std::size_t count_ = 0;
  std::optional<Error> error_{};
};

}  // namespace

const ConfigValue* ConfigValue::find(std::string_view name) const {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const ConfigValue& item) { return item.key == name; });
  return kind == Kind::map && found != items.end() ? &*found : nullptr;
}

std::string place_in(const std::string& file, const ConfigValue& value, const std::string& path) {
  return fmt::format("{}:{}: {}", printable(file), value.line, printable(path));
}

Result<ConfigValue> read_config_tree(const std::string& text, const std::string& file) {
  const auto refused = [&](const char* what) { return usage_error(fmt::format("{}: {}", printable(file), what)); };
  if (text.size() > kMostConfigBytes) return refused("a config has at most 1 MiB");
  if (text.find('\0') != std::string::npos) return refused("it has a byte of 0, and is no text");
  if (!launcher::is_utf8(text)) return refused("it is not UTF-8");
  return TreeReader(text, file).run();
}

}  // namespace dtrain::cli
