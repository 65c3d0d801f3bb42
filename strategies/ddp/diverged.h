#pragma once
// Whether all ranks have the same model: the same tensors, and the same values in them.
#include <string>
#include <vector>

#include "dtrain/group.h"
#include "strategies/torch/pch.h"

namespace dtrain {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Each once, by its first name in the module.
std::vector<NamedParameter> parameters_of(const torch::nn::Module& module);
std::vector<NamedParameter> buffers_of(const torch::nn::Module& module);

// Collective of the group, before it works on these tensors together: throws DivergedError on every rank where they
// differ in number, type, shape, layout or whether they need a gradient. Their names may differ.
void require_alike(const Group& group, const std::vector<NamedParameter>& parameters,
                   const std::vector<NamedParameter>& buffers);

// Collective of the group: throws DivergedError on every rank where one of them, in their order, is not the same bits
// on all.
void require_equal(const Group& group, const std::vector<NamedParameter>& parameters);

}  // namespace dtrain
