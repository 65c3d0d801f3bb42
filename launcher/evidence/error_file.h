#pragma once
// The error file that torch's @record writes to TORCHELASTIC_ERROR_FILE when a worker ends with an exception.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

struct ErrorFile {
  std::string message;               // "RuntimeError: boom"
  std::string traceback;             // the Python traceback; empty if the file has none
  std::optional<int64_t> timestamp;  // whole seconds since 1970, as the worker's clock had it
  std::string note;                  // why the file could not be understood; the other members are then empty
};

// Largest error file that is understood, and the largest that is handed on as it is; in bytes.
inline constexpr size_t kErrorFileLimit = 1 << 20;
inline constexpr size_t kErrorFileCopyLimit = 16 << 20;

// Parse the file's text. Accepted are {"message": {"message", "extraInfo": {"py_callstack", "timestamp"}}} and
// {"message": "...", "timestamp": 10}. Anything else gives a note. Pure, for any bytes.
ErrorFile parse_error_file(std::string_view text);

// The file's facts as JSON in the form that @record writes, without its extra keys; {"message":"<NONE>"}, as torchrun
// says it, where there is no file. One line.
std::string error_file_json(const std::optional<ErrorFile>& file);

// The error file that a launcher leaves to whoever started it: `own`, the first failure's file, with "errorCode" in
// its message, or as it is where it is too large to be understood; where it is no object with a message or even larger,
// one made of the other facts. errorCode is Python's exit code (-n for signal n). Pure.
std::string error_file_for_parent(const std::string& own, const std::string& status, int64_t unix_s, int exit_code);

// When the cause of a worker's end was: the time of its exception, where the error file proves that the exception was
// earlier than the end; else the end. The file has whole seconds, so an exception counts as late as its second allows.
// `ended` and `ended_unix` are the same moment.
MonoTime time_of_cause(MonoTime ended, int64_t ended_unix, const ErrorFile& error);

// Read and parse the file; nothing if there is no such file or the path is empty.
std::optional<ErrorFile> read_error_file(const std::string& path);

}  // namespace dtrain::launcher
