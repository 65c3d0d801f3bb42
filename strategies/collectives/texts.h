#pragma once
// Texts of all ranks.
#include <string>
#include <vector>

#include "strategies/torch/pch.h"

namespace dtrain {

// Collective, over the CPU: by rank. They may differ in length.
std::vector<std::string> all_gather_texts(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& text);

}  // namespace dtrain
