#pragma once
// The value syntaxes of the flags. Pure and total: any bytes give a value or an error that says what was expected.
// The messages do not name the flag; the caller puts it in front (Error::in).
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// A whole number in plain digits, lowest <= n <= highest.
Result<int> parse_number(std::string_view text, int lowest, int highest);

// The same as Python's int() reads it, for torchrun's numbers: " 3", "+3" and "1_000" as well.
Result<int> parse_python_int(std::string_view text, int lowest, int highest);

// Whether Python\'s int() takes it, whatever the number.
bool is_python_int(std::string_view text);

// A finite number as Python's float() reads it, for torchrun's: " 0.5", "+1e-3", ".5", "1_0.5". Neither hexadecimal nor
// inf or nan, and whatever the locale is.
Result<double> parse_python_float(std::string_view text);

// Seconds in plain digits, with an optional fraction of which milliseconds count: "30", "0.5". At most a year.
Result<std::chrono::milliseconds> parse_seconds(std::string_view text);

// "5GB", "300MiB" or "1000": bytes, 1 or more.
Result<std::uint64_t> parse_size(std::string_view text);

// A switch in the environment: a whole number as Python's int() reads it (0 is off), or true/false/yes/no/on/off.
Result<bool> parse_switch(std::string_view text);

inline constexpr int kMostRank = 999999999;
inline constexpr int kMostWorkersOfNode = 16384;

// Ranks and ranges of ranks: "0,5-7". At least one; a rank above `highest` is an error that names it.
Result<launcher::RankSet> parse_ranks(std::string_view text, int highest);

// What becomes of local ranks that do not exist or are named twice: an error, or, as with torchrun, the former have no
// effect and the last of the latter counts.
enum class OddRanks { refused, as_torchrun };

// torchrun's stream map: "0".."3", or "RANK:0..3" separated by commas, where RANK may be a range: "0-3:1,12:3".
Result<launcher::StreamMap> parse_streams(std::string_view text, int workers, OddRanks odd = OddRanks::refused);

// Comma separated texts; ",," is a comma within one. Empty ones do not count.
std::vector<std::string> parse_texts(std::string_view text);

// Comma separated signal names (with or without SIG) or numbers; "none" or nothing: none. KILL, STOP and the signals
// that dtrain needs for itself (CHLD and job control) are errors.
Result<std::vector<int>> parse_signals(std::string_view text);

// The parts of such a list that name no signal, without blanks around them.
std::vector<std::string> unknown_signals(std::string_view text);

}  // namespace dtrain::cli
