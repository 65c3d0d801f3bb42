"""The router alone: what it costs to search each line for many texts (--duplicate-stdout-filters)."""
import os
import re
import subprocess

from bench import Bar, Section, median

COUNTS = (0, 1, 10, 300)


def cpu_seconds(context, megabytes, filters):
    program = os.path.join(context.bin_dir, "bench_lines")
    command = [program, str(megabytes), "100", os.devnull, os.devnull, str(filters)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    return float(re.search(r"([\d.]+) s of CPU", said).group(1))


def measure(context):
    megabytes = context.times(256, 32)
    section = Section("Output: many filters", [
        f"`bench_lines {megabytes} 100 /dev/null /dev/null N`: {megabytes} MiB in lines of 100 bytes go through the",
        "router; each line is searched for N texts that nearly match (`--duplicate-stdout-filters`). CPU time of the",
        "whole, the median of the runs. One pass finds all of the texts."],
        ["filters", "CPU time", "of it for the filters, per MiB"])
    took = {}
    runs = [{count: cpu_seconds(context, megabytes, count) for count in COUNTS} for _ in range(context.times(5, 1))]
    for count in COUNTS:
        took[count] = median([run[count] for run in runs])
        cost = "" if count == 0 else f"{(took[count] - took[0]) / megabytes * 1000:.1f} ms"
        section.rows.append([str(count), f"{took[count]:.2f} s", cost])
    of_many, of_one = took[COUNTS[-1]], took[1]
    section.bars = [Bar(f"{COUNTS[-1]} filters compared with one", f"{of_many / of_one:.2f}x", "<= 2x",
                        of_many <= 2 * of_one)]
    return section
