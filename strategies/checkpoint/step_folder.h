#pragma once
// The folders of a folder of checkpoints: step-00001200 is complete, step-00001200.tmp-... is an attempt. Errors are
// Refused.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/checkpoint/layout_plan.h"
#include "strategies/checkpoint/load_plan.h"
#include "strategies/checkpoint/manifest_wire.h"
#include "strategies/checkpoint/sums_wire.h"

namespace dtrain::checkpoint {

// "step-00001200"
std::string step_name(std::int64_t step);

// What has the name of a step, newest first. A save gives a folder this name when it is complete, so one that lacks a
// file, be it dtrain.json, is damaged, whatever was killed. Empty where there is no such folder. Throws Refused: it
// cannot be read.
std::vector<std::int64_t> steps_in(const std::string& folder);
// What dtrain.json says. Throws Refused: it makes no sense, or one of its files has not its size.
Manifest complete_manifest(const std::string& step_folder);
// Why that is refused, else nothing.
std::optional<std::string> why_incomplete(const std::string& step_folder);
// The newest step below `below` that is complete, -1: none. Adds to `damaged` why newer ones are not.
std::int64_t newest_complete(const std::string& folder, std::int64_t below, std::vector<std::string>& damaged);

// Makes the folder, removes what dead attempts left, and makes a new attempt: its path.
std::string begin_attempt(const std::string& folder, std::int64_t step);
// The files of a layout in the attempt, empty.
void make_files(const std::string& attempt, const Layout& layout);
// Their headers, and room for all bytes. Others may already have written parts.
void begin_files(const std::string& attempt, const Layout& layout);
// The attempt becomes the step, in the place of an earlier one of this name.
void finish_attempt(const std::string& folder, const std::string& attempt, std::int64_t step, bool sync);
// The same where the file system cannot exchange two names, as NFS: between two calls of the system neither has the
// name. Returns where the earlier one is now. Throws Refused: it has its name again.
std::string put_in_place(const std::string& attempt, const std::string& path);
// Takes their names from the steps that are older than the newest `keep` complete ones of up to `step`; 0: none.
// Returns the folders, for remove_folders. What cannot be renamed stays, and so does what has no dtrain.json: it may be
// no checkpoint.
std::vector<std::string> take_old_steps(const std::string& folder, std::int64_t step, int keep);
// What cannot be removed stays; the next attempt tries again.
void remove_folders(const std::vector<std::string>& folders);

// A rank's own values, in memory.
struct Part {
  std::size_t tensor = 0;  // its place in the layout
  std::uint64_t begin = 0, count = 0;
  const void* data = nullptr;
};
// Large parts go past the page cache where others need the CPUs, if they go to the disk. Where nobody does, the page
// cache is as fast, and a load finds the files there.
enum class Way { page_cache, past_it };
// Writes them into the files of the attempt, and to the disk.
std::vector<PartSum> write_parts(const std::string& attempt, const Layout& layout, const std::vector<Part>& parts,
                                 bool sync, Way way = Way::page_cache);

// The tensors of a safetensors file.
std::vector<HeaderTensor> read_header(const std::string& path);
// What is at `path`: a file, or a folder with STEM.safetensors or its index, of the first stem that is there, or with a
// file of each rank (shard-*.safetensors). Paths of files are whole.
StoredTensors read_plain(const std::string& path, const std::vector<std::string>& stems);

}  // namespace dtrain::checkpoint
