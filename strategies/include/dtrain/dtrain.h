#pragma once
// dtrain's training layer for LibTorch. Include this one header. The comments of each header below are its manual, and
// docs/strategies.md is a guide.
#include "dtrain/amp.h"
#include "dtrain/batch_sampler.h"
#include "dtrain/checkpoint.h"
#include "dtrain/ddp.h"
#include "dtrain/ema.h"
#include "dtrain/errors.h"
#include "dtrain/group.h"
#include "dtrain/horovod.h"
#include "dtrain/mesh.h"
#include "dtrain/optimizer.h"
#include "dtrain/parallel.h"
#include "dtrain/schedule.h"
#include "dtrain/session.h"
#include "dtrain/strategy.h"
#include "dtrain/training_config.h"
#include "dtrain/worker_env.h"
