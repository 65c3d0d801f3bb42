#pragma once
// The credentials of the data's object store, for the workers of this node.
#include <optional>

#include "cli/machine/host.h"
#include "launcher/ship/kept_folder.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// A file with host.store_credentials that only this user can read; DTRAIN_STORE_CREDENTIALS names it from here on. It
// is gone when this process and those that it has forked have ended, whatever they die of. Nothing: there are none.
// Forks: call with one thread.
Result<std::optional<launcher::KeptFolder>> make_credentials_file(const Host& host);

}  // namespace dtrain::cli
