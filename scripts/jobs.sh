#!/bin/sh
# Print how many compilers may run at once: one for each CPU, but no more than there is memory for, since a source that
# includes torch.h takes up to 1.3 GB.
cpus=$(nproc)
memory_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
for limit_file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  limit=$(cat "$limit_file" 2>/dev/null) || continue
  case $limit in
    *[!0-9]* | '') ;;
    *) limit_kb=$((limit / 1024)); [ "$limit_kb" -lt "$memory_kb" ] && memory_kb=$limit_kb ;;
  esac
done
jobs=$((memory_kb / 1500000))
[ "$jobs" -gt "$cpus" ] && jobs=$cpus
[ "$jobs" -lt 1 ] && jobs=1
echo "$jobs"
