#pragma once
// Whose word counts about the nodes of a job: --engine. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// One of the choices of --engine.
Result<std::string> engine_of(const Options& options);

// The user says where the nodes meet, or that there is one.
bool user_decides(const Options& options);

// Whether the word of this engine counts, if it has one: it is named, or no engine is and the user has not decided. An
// agent of an engine (host.place) listens to that one alone, and torchrun knows none. Error: the engine is named, and
// the user has said where the nodes meet as well.
Result<bool> may_speak(std::string_view engine, const RawOptions& raw, const Host& host, const Options& options);
// The engine is named.
bool is_named(std::string_view engine, const Options& options);

// --master-port, or what an engine has instead.
std::string port_or(const Options& options, const std::string& fallback);

// --num-proc auto: each node has a worker for each GPU, or one.
bool is_sized_by_nodes(const Options& options);

// The workers of each node, by --num-proc. Nothing: nobody has given that, or it is auto. Error: nodes that come and
// go, or whose parts are not equal, or not what --nproc says.
Result<std::optional<int>> part_of_num_proc(const Options& options);

}  // namespace dtrain::cli
