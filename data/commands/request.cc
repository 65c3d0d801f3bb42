#include "data/commands/request.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/base/one_line.h"
#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/commands/key_lines.h"
#include "data/entry/stop_signals.h"

namespace dtrain::data {
namespace {

constexpr std::size_t kMostRequest = std::size_t{16} << 20;

nlohmann::json read_request() {
  std::string text;
  std::string piece(65536, '\0');
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text.size() > kMostRequest) break;
    text.append(piece, 0, static_cast<std::size_t>(got));
  }
  nlohmann::json request = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object())
    throw CacheError(kUsageCode, "standard input has no request; dtrain starts this program: see `dtrain help`");
  return request;
}

// Lines of a socket: {"asks": FOLDER, "code": N}. Those about other folders answer an earlier build.
int answer_about(const std::string& folder) {
  std::string line;
  for (char byte = 0;;) {
    const ssize_t got = ::read(STDOUT_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > kMostRequest) return kSystemCode;  // whoever was asked has gone
    if (byte != '\n') {
      line += byte;
      continue;
    }
    const auto answer = nlohmann::json::parse(std::exchange(line, {}), nullptr, /*allow_exceptions=*/false);
    if (answer.is_object() && answer.value("asks", std::string()) == folder) return answer.value("code", kSystemCode);
  }
}

}  // namespace

// fmt::print() would throw if standard error is closed or full.
void say_line(const std::string& line) { std::fputs(fmt::format("dtrain: {}\n", one_line(line)).c_str(), stderr); }

std::function<void(const std::string&)> say_unless(const nlohmann::json& request) {
  if (request.value("quiet", false)) return [](const std::string&) {};
  return say_line;
}

int print_text(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  say_line("standard output cannot be written");
  return kSystemCode;
}

std::function<void(const std::filesystem::path& folder)> nodes_question(const nlohmann::json& request) {
  if (!request.value("asks_nodes", false)) return {};
  return [](const std::filesystem::path& folder) {
    const nlohmann::json question = {{"asks", folder.string()}};
    if (const int code = print_text(question.dump() + "\n"); code != 0) throw CacheError(code, "");
    const int code = answer_about(folder.string());
    if (code != 0) throw CacheError(code, "");
  };
}

std::filesystem::path cache_asked(const nlohmann::json& request) {
  const std::string named = request.value("cache_dir", std::string());
  if (!named.empty()) return named;
  const auto words = request.at("dataset").at("input").get<std::vector<std::string>>();
  if (words.empty()) throw CacheError(kUsageCode, "dataset.input: name at least one file or folder");
  return usual_cache(words[0]);
}

std::filesystem::path cache_to_name(const nlohmann::json& request) {
  std::filesystem::path folder = std::filesystem::absolute(cache_asked(request));
  const nlohmann::json name = folder.string();
  const std::string shown = name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (nlohmann::json::parse(shown) == name) return folder;
  throw CacheError(kUsageCode, fmt::format("backend.cache_dir: the cache would be {}, which is not UTF-8; name another "
                                           "folder",
                                           shown));
}

GcLimits gc_limits(const nlohmann::json& request) {
  GcLimits limits;
  if (request.contains("ttl_s")) limits.ttl = std::chrono::seconds(request["ttl_s"].get<std::int64_t>());
  if (request.contains("max_bytes")) limits.most_bytes = request["max_bytes"].get<std::uint64_t>();
  return limits;
}

bool remove_or_say(const std::function<bool()>& remove, int& code) {
  try {
    return remove();
  } catch (const CacheError& error) {
    say_line(error.what());
    code = error.code;
    return false;
  }
}

std::chrono::seconds age_of_entry(std::int64_t made) {
  return std::chrono::seconds(std::max<std::int64_t>(0, std::time(nullptr) - made));
}

bool cache_is_in_store(const nlohmann::json& request) {
  return is_store_uri(request.value("cache_dir", std::string()));
}

std::unique_ptr<ObjectStore> store_asked(const nlohmann::json& request, const OpenObjects& open) {
  if (!cache_is_in_store(request)) return nullptr;
  const std::string named = request["cache_dir"].get<std::string>();
  if (!open) throw CacheError(kUsageCode, named + ": this dtrain-data has no object stores; name a folder");
  return open(named, request.value("credentials", nlohmann::json::object()));
}

std::vector<std::string> keys_meant(const std::vector<std::string>& all, const std::vector<std::string>& words) {
  std::vector<std::string> keys;
  for (const std::string& word : words) {
    std::vector<std::string> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const std::string& key) { return key.starts_with(word); });
    if (found.size() == 1) {
      keys.push_back(found[0]);
      continue;
    }
    const char* const why = found.empty() ? "there is no such entry; `dtrain cache ls` lists them"
                                          : "more than one key begins so; type more of it";
    throw CacheError(kUsageCode, fmt::format("{}: {}", word, why));
  }
  return keys;
}

int with_request(const std::function<int(const nlohmann::json& request)>& command) {
  nlohmann::json request = nlohmann::json::object();
  const auto wrong = [&](int code, std::string what) {
    if (what.empty()) return code;                     // it has been said
    constexpr std::string_view kOwnName = "dtrain: ";  // errors of data begin so, as a user's program throws them
    if (what.starts_with(kOwnName)) what.erase(0, kOwnName.size());
    say_line(with_line(what, request.value("file", std::string()), request.value("lines", nlohmann::json::object())));
    return code;
  };
  try {
    request = read_request();
    return command(request);
  } catch (const CacheError& error) {
    return wrong(error.code, error.what());
  } catch (const Interrupted& interrupted) {
    end_by(interrupted.signal);
  } catch (const nlohmann::json::exception& error) {
    return wrong(kUsageCode, fmt::format("the request is not as dtrain writes it: {}", error.what()));
  } catch (const std::system_error& error) {
    return wrong(kSystemCode, error.what());
  } catch (const std::exception& error) {  // of the processor
    return wrong(kUsageCode, error.what());
  }
}

}  // namespace dtrain::data
