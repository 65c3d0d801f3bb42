#pragma once
// Whether all ranks have the same parameters.
#include <string>
#include <vector>

#include "strategies/torch/pch.h"

namespace dtrain {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Collective: throws DivergedError on every rank where one of them, in their order, is not the same bits on all.
void require_equal(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<NamedParameter>& parameters);

}  // namespace dtrain
