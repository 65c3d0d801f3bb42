#pragma once
// Small pure helpers for messages.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/printable.h"  // printable()
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The name nearest to `typed` by edits and swaps ('_' equals '-'), if near enough to be a slip; else empty.
std::string closest(std::string_view typed, const std::vector<std::string>& names);

// The only name with a word (between '-') that begins with `typed`, of three letters or more: "restarts" means
// "max-restarts". Else empty.
std::string only_with_word(std::string_view typed, const std::vector<std::string>& names);

// Fine if `typed` is one of `names`; else an error that lists them, with a guess at which was meant.
Result<void> one_of(std::string_view typed, const std::vector<std::string>& names);

// Split at `separator`; "a,,b" gives an empty part. An empty text gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);

// Without blanks, tabs and line ends at its ends.
std::string trimmed(std::string_view text);

// With the letters a to z made upper, or A to Z lower; all else as it is.
std::string upper(std::string_view text);
std::string lower(std::string_view text);

// "a sentence" -> "A sentence."
std::string sentence(std::string_view text);

// Whether it is digits 0 to 9 only, and at least one.
bool all_digits(std::string_view text);

bool has_control_bytes(std::string_view text);

// A shell word: quoted only where a POSIX shell would need it.
std::string shell_quoted(std::string_view word);

}  // namespace dtrain::cli
