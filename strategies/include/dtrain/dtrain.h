#pragma once
// dtrain's training layer for LibTorch: include this one header. Each of these is its own manual.
#include "dtrain/batch_sampler.h"
#include "dtrain/ddp.h"
#include "dtrain/errors.h"
#include "dtrain/group.h"
#include "dtrain/horovod.h"
#include "dtrain/mesh.h"
#include "dtrain/session.h"
#include "dtrain/worker_env.h"
