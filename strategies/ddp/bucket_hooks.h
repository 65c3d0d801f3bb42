#pragma once
// What the Reducer does with a bucket instead of its own all-reduce.
#include <memory>

#include "dtrain/ddp.h"

namespace dtrain {

// Null: nothing else.
std::unique_ptr<c10d::CommHookInterface> bucket_hook(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                     const DdpOptions& options);

}  // namespace dtrain
