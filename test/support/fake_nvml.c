// A library with NVML's name and the few functions that dtrain calls, for tests. FAKE_NVML says what it reports:
//   "4"          four GPUs                       "init:9"  nvmlInit fails with this number
//   "2 mig:3"    the last is in MIG mode,        "hang"    nvmlInit never returns
//                with three instances            "crash"   nvmlInit ends the process with SIGSEGV
//   "4 lost"     the last does not answer
// Without it there is no GPU.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;

// A GPU's handle is 1000 + its index; an instance's is that * 1000 + 1 + its number.
typedef size_t Device;

static const char* wish(void) {
  const char* text = getenv("FAKE_NVML");
  return text != NULL ? text : "0";
}

static unsigned instances(void) {
  const char* text = strstr(wish(), "mig:");
  return text != NULL ? (unsigned)atoi(text + 4) : 0;
}

int nvmlInit_v2(void) {
  if (strcmp(wish(), "hang") == 0)
    for (;;) pause();
  if (strcmp(wish(), "crash") == 0) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  return strncmp(wish(), "init:", 5) == 0 ? atoi(wish() + 5) : 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)atoi(wish());
  return 0;
}

static int is_last(Device device) { return (unsigned)(device - 1000) + 1 == (unsigned)atoi(wish()); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = 1000 + index;
  return is_last(*device) && strstr(wish(), "lost") != NULL ? 15 : 0;
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  if (device < 1000000)
    snprintf(text, size, "GPU-%08x-fa4e-0000-0000-000000000000", (unsigned)device - 1000);
  else
    snprintf(text, size, "MIG-%08x-fa4e-0000-0000-%012x", (unsigned)(device / 1000) - 1000,
             (unsigned)(device % 1000) - 1);
  return 0;
}

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* place) {
  memset(place, 0, sizeof *place);
  place->bus = 0x1a + (unsigned)device - 1000;
  return 0;
}

int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *current = *pending = is_last(device) && instances() > 0;
  return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  (void)device;
  *count = 7;
  return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* instance) {
  *instance = device * 1000 + 1 + index;
  return index < instances() ? 0 : 6;
}

int nvmlDeviceGetGpuInstanceId(Device instance, unsigned* id) {
  *id = (unsigned)(instance % 1000);
  return 0;
}

int nvmlDeviceGetComputeInstanceId(Device instance, unsigned* id) {
  (void)instance;
  *id = 0;
  return 0;
}
