#pragma once
// GPUs of this machine, without CUDA.

namespace dtrain::cli {

// What the NVIDIA driver reports through libnvidia-ml.so.1, else the number of entries in /proc/driver/nvidia/gpus;
// 0 if there is no driver. The library is loaded in a short-lived child, so that neither its memory nor its threads
// stay in the agent; a driver that does not answer within 20 seconds counts as none.
int driver_gpu_count();

}  // namespace dtrain::cli
