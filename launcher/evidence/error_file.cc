#include "launcher/evidence/error_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "launcher/base/small_file.h"

namespace dtrain::launcher {
namespace {

using Json = nlohmann::json;

ErrorFile not_understood(std::string why) {
  ErrorFile file;
  file.note = std::move(why);
  return file;
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string text_of(const Json* value) { return value && value->is_string() ? value->get<std::string>() : ""; }

// Whether arrays and objects lie in each other deeper than any error needs: the library that reads them needs some
// stack for each level when it writes them again.
bool too_deep(std::string_view text) {
  constexpr int kDeepest = 100;
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\') ++i;
    if (in_text) continue;
    if ((c == '[' || c == '{') && ++depth > kDeepest) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

// torch writes the timestamp as a string or as a number.
std::optional<int64_t> seconds_of(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return value->get<int64_t>();
  std::string text = text_of(value);
  int64_t seconds = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return seconds;
}

}  // namespace

ErrorFile parse_error_file(std::string_view text) {
  if (text.size() > kErrorFileLimit) return not_understood("the error file is larger than 1 MiB");
  if (too_deep(text)) return not_understood("the error file is nested more than 100 levels deep");
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return not_understood("the error file is not valid JSON");
  const Json* message = member(root, "message");
  if (message == nullptr) return not_understood("the error file has no \"message\"");

  ErrorFile file;
  if (message->is_string()) {
    file.message = text_of(message);
    file.timestamp = seconds_of(member(root, "timestamp"));
    return file;
  }
  const Json* inner = member(*message, "message");
  if (inner == nullptr || !inner->is_string()) return not_understood("the error file's \"message\" is not a text");
  file.message = text_of(inner);
  if (const Json* extra = member(*message, "extraInfo")) {
    file.traceback = text_of(member(*extra, "py_callstack"));
    file.timestamp = seconds_of(member(*extra, "timestamp"));
  }
  return file;
}

std::string error_file_json(const std::optional<ErrorFile>& file) {
  nlohmann::ordered_json root;
  if (!file) {
    root["message"] = "<NONE>";
  } else if (file->traceback.empty()) {
    root["message"] = file->message.empty() ? file->note : file->message;
    if (file->timestamp) root["timestamp"] = *file->timestamp;
  } else {
    auto& message = root["message"];
    message["message"] = file->message;
    message["extraInfo"]["py_callstack"] = file->traceback;
    message["extraInfo"]["timestamp"] = std::to_string(file->timestamp.value_or(0));
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_file_for_parent(const std::string& own, const std::string& status, int64_t unix_s, int exit_code) {
  const bool large = own.size() > kErrorFileLimit;
  if (large && own.size() <= kErrorFileCopyLimit) return own;
  Json root = large || too_deep(own) ? Json() : Json::parse(own, nullptr, false);
  const Json* message = root.is_discarded() ? nullptr : member(root, "message");
  if (message == nullptr || !message->is_object()) {
    const std::string text = message != nullptr && message->is_string() ? text_of(message) : status;
    root = Json::object();
    root["message"]["message"] = text;
    root["message"]["extraInfo"]["timestamp"] = std::to_string(unix_s);
  }
  root["message"]["errorCode"] = exit_code;
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<ErrorFile> read_error_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto text = read_regular_file(path, kErrorFileLimit);
  if (text) return parse_error_file(*text);
  if (text.error().errno_value == ENOENT) return std::nullopt;
  return not_understood("the error file cannot be read: " + text.error().message);
}

MonoTime time_of_cause(MonoTime ended, int64_t ended_unix, const ErrorFile& error) {
  constexpr int64_t kDay = 24 * 3600;  // more is a wrong clock
  if (!error.timestamp) return ended;
  const int64_t time = *error.timestamp;  // any number that the file has
  if (time <= ended_unix - kDay || time >= ended_unix) return ended;
  return ended - std::chrono::seconds(ended_unix - 1 - time);
}

}  // namespace dtrain::launcher
