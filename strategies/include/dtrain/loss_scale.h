#pragma once
// What a GradScaler (amp.h) can be told, and what it knows. Pure: no I/O, no torch.

namespace dtrain {

// Names and defaults of torch.amp.GradScaler; dynamic, hysteresis and min_scale are of DeepSpeed.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // above 1
  double backoff_factor = 0.5;  // above 0 and below 1
  int growth_interval = 2000;   // steps with finite gradients after which the scale grows
  bool enabled = true;          // false: no call does anything, but step() steps
  bool dynamic = true;          // false: the scale stays init_scale; steps that are not finite are left out
  // So many steps with gradients that are not finite make the scale smaller: all but the last of them leave it. The
  // count begins again when the scale grows.
  int hysteresis = 1;
  double min_scale = 0;  // the scale does not become smaller than this
};

// What a GradScaler knows. GradScaler::save_into() has it as text.
struct GradScalerState {
  double scale = 65536;
  int growth_tracker = 0;  // steps with finite gradients since the scale has changed
  int overflows = 0;       // steps without, that have left the scale as it is
};

}  // namespace dtrain
