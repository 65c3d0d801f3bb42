#pragma once
// Whether all ranks have the same parameters.
#include <string>
#include <vector>

#include "dtrain/group.h"
#include "strategies/torch/pch.h"

namespace dtrain {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Collective of the group: throws DivergedError on every rank where one of them, in their order, is not the same bits
// on all.
void require_equal(const Group& group, const std::vector<NamedParameter>& parameters);

}  // namespace dtrain
