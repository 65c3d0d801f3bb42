#pragma once
// The only file with conditions on torch's version: what drifted between 2.11 and 2.15 and matters to us.
#include "strategies/torch/pch.h"

#define DTRAIN_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !DTRAIN_TORCH_AT_LEAST(2, 11)
#error "dtrain needs torch 2.11 or newer"
#endif
