// Loading: each rank reads the headers, and of the tensors the ranges that it needs. Then the ranks tell each other
// whether that went well.
#include <fmt/ranges.h>

#include <filesystem>
#include <limits>

#include "dtrain/checkpoint.h"
#include "strategies/checkpoint/crc32c.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/checkpoint/range_file.h"

namespace dtrain::checkpoint {
namespace {

// One list of pieces, and the files that have it.
struct LoadHalf {
  std::vector<StatePiece>* pieces = nullptr;
  StoredTensors stored;
  std::map<std::string, std::uint32_t> sums;  // by tensor; empty: none are known
  std::vector<PartSum> read;                  // by this rank; the tensors are counted as the pieces are
};

// Sets `fits` to false if the program asks for something else than is there.
void read_values(LoadHalf& half, const LoadOptions& options, bool& fits) {
  const at::NoGradGuard no_grad;
  const bool summed = options.verify;
  std::vector<Wanted> wanted;
  fits = false;
  for (const StatePiece& piece : *half.pieces) wanted.push_back(wanted_of(piece));
  const auto reads = plan_reads(half.stored, wanted, {options.convert, options.allow_others});
  fits = true;
  std::unique_ptr<RangeFile> file;
  std::size_t number = 0;
  for (const PlannedRead& read : reads) {
    if (!file || read.file != number)
      file = std::make_unique<RangeFile>(half.stored.files[read.file], RangeFile::Use::read);
    number = read.file;
    at::Tensor values = (*half.pieces)[read.wanted].values.narrow(0, static_cast<std::int64_t>(read.first),
                                                                  static_cast<std::int64_t>(read.count));
    const at::ScalarType type = torch_type(*read.stored);
    const bool direct = values.is_cpu() && values.is_contiguous() && values.scalar_type() == type;
    at::Tensor buffer = direct ? values : at::empty(values.sizes(), at::TensorOptions(type));
    std::uint32_t sum = 0;
    if (summed)
      sum = file->read(read.begin, buffer.mutable_data_ptr(), read.bytes);
    else
      file->read_unsummed(read.begin, buffer.mutable_data_ptr(), read.bytes);
    if (!direct) values.copy_(buffer);
    half.read.push_back({read.wanted, wanted[read.wanted].begin + read.first, read.count, sum});
  }
}

// The sum of a whole tensor in its file.
std::uint32_t sum_in_file(const StoredTensors& stored, const StoredTensor& tensor) {
  std::uint32_t sum = 0;
  for (const StoredPart& part : tensor.parts) {
    RangeFile file(stored.files[part.file], RangeFile::Use::read);
    sum = file.sum(part.at, part.count * tensor.tensor.element_bytes(), sum);
  }
  return sum;
}

// Of the parts that all ranks have read; a tensor that they have not read as a whole is read by one of them.
void check_sums(int rank, const LoadHalf& half, const std::vector<std::vector<PartSum>>& of_ranks) {
  std::vector<TensorSpec> specs;
  for (const StatePiece& piece : *half.pieces) {
    const auto stored = half.stored.by_name.find(piece.name);  // none: it is optional
    specs.push_back(stored != half.stored.by_name.end() ? stored->second.tensor : wanted_of(piece).tensor);
  }
  const auto whole = whole_sums(specs, of_ranks);
  std::size_t turn = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto found = half.stored.by_name.find(specs[i].name);
    if (found == half.stored.by_name.end()) continue;
    const StoredTensor& stored = found->second;
    std::uint32_t sum = whole[i].sum;
    if (!whole[i].covered) {
      if (turn++ % of_ranks.size() != static_cast<std::size_t>(rank)) continue;
      sum = sum_in_file(half.stored, stored);
    }
    if (sum != half.sums.at(specs[i].name))
      throw Refused(fmt::format("{} is damaged: the crc32c of {} is {:08x}, and should be {:08x}",
                                half.stored.files[stored.parts[0].file], shown(specs[i].name), sum,
                                half.sums.at(specs[i].name)));
  }
}

// Collective.
void load_halves(const Group& group, const std::string& what, std::vector<LoadHalf>& halves, const LoadOptions& options,
                 const std::string& failed_before) {
  const bool summed = options.verify;
  Said own{failed_before};
  if (own.failure.empty())
    own.failure = failure_of([&] {
      for (LoadHalf& half : halves) read_values(half, options, own.fits);
    });
  if (summed)
    for (const LoadHalf& half : halves) own.text += sums_text(half.read) + "|";
  const auto said = exchange(group, what, own);
  if (!summed) return;
  const std::string failure = failure_of([&] {
    std::vector<std::size_t> at(said.size(), 0);
    for (const LoadHalf& half : halves) {
      std::vector<std::vector<PartSum>> of_ranks;
      for (std::size_t rank = 0; rank < said.size(); ++rank) {
        const std::size_t end = said[rank].find('|', at[rank]);
        of_ranks.push_back(parse_sums(std::string_view(said[rank]).substr(at[rank], end - at[rank])));
        at[rank] = end + 1;
      }
      if (!half.sums.empty()) check_sums(group.rank(), half, of_ranks);
    }
  });
  exchange(group, what, {failure, {}});
}

// The headers of a step's files, each as the manifest has it.
void open_step(const std::string& folder, const Manifest& manifest, LoadHalf& model, LoadHalf& optimizer) {
  for (const ManifestFile& file : manifest.files) {
    LoadHalf& half = file.name.starts_with("optimizer") ? optimizer : model;
    auto tensors = read_header(folder + "/" + file.name);
    bool same = tensors.size() == file.sums.size();
    for (const HeaderTensor& tensor : tensors) same = same && file.sums.contains(tensor.name);
    if (!same) throw Refused(fmt::format("{}/{} has other tensors than {} says", folder, file.name, kManifestName));
    half.stored.add(folder + "/" + file.name, std::move(tensors));
    half.sums.insert(file.sums.begin(), file.sums.end());
  }
}

// Those of a folder that is a step, under the names without the prefix.
std::map<std::string, std::uint32_t> sums_beside(const std::string& path, const std::string& prefix) {
  std::map<std::string, std::uint32_t> sums;
  if (!std::filesystem::exists(path + "/" + kManifestName)) return sums;
  for (const ManifestFile& file : complete_manifest(path).files)
    for (const auto& [name, sum] : file.sums)
      if (!file.name.starts_with("optimizer") && name.starts_with(prefix)) sums[name.substr(prefix.size())] = sum;
  return sums;
}

// Collective. Fills the state from one step.
Loaded load_one(const Checkpoints::State& self, std::int64_t step, CheckpointState& state, const LoadOptions& options) {
  const std::string folder = self.folder + "/" + step_name(step);
  std::vector<LoadHalf> halves(2);
  halves[0].pieces = &state.model;
  halves[1].pieces = &state.optimizer;
  Manifest manifest;
  const std::string failure = failure_of([&] {
    manifest = complete_manifest(folder);
    if (manifest.step != step)
      throw Refused(fmt::format("{}/{} is that of step {}", folder, kManifestName, manifest.step));
    open_step(folder, manifest, halves[0], halves[1]);
  });
  load_halves(self.group, fmt::format("the checkpoint of step {} cannot be loaded", step), halves, options, failure);
  state.step = step;
  state.extra = manifest.extra;
  return {step, manifest.extra, manifest.world_size, {}};
}

// Collective: the newest step below `below` that rank 0 finds complete, -1: none. Rank 0 tells what it has skipped.
std::int64_t newest(const Checkpoints::State& self, std::int64_t below, std::vector<std::string>& skipped) {
  Said own;
  const auto look = [&] {
    std::vector<std::string> damaged;
    own.text = std::to_string(newest_complete(self.folder, below, damaged));
    for (const std::string& why : damaged) own.text += "\n" + why;
  };
  if (self.group.rank() == 0) own.failure = failure_of(look);
  const std::string said = exchange(self.group, "the newest checkpoint cannot be found", own)[0];
  std::size_t at = said.find('\n');
  const std::int64_t found = std::stoll(said.substr(0, at));
  while (at != std::string::npos) {
    const std::size_t end = said.find('\n', at + 1);
    skipped.push_back(said.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    at = end;
  }
  return found;
}

std::optional<std::int64_t> newest_of_all(const Checkpoints::State& self, std::vector<std::string>& damaged) {
  const std::int64_t step = newest(self, std::numeric_limits<std::int64_t>::max(), damaged);
  return step < 0 ? std::nullopt : std::optional(step);
}

CheckpointError nothing_to_load(const std::string& folder, const std::vector<std::string>& damaged) {
  std::string text = fmt::format("dtrain: {} has no checkpoint that can be loaded", folder);
  if (!damaged.empty())
    text += fmt::format(
        ": {}. Put an undamaged copy of one in its place; or, to begin anew, move these away or name "
        "another folder",
        fmt::join(damaged, "; "));
  return CheckpointError(text);
}

}  // namespace

std::vector<std::string> exchange(const Group& group, const std::string& what, const Said& own) {
  auto said = all_gather_texts(group.process_group(),
                               own.failure.empty() ? "+" + own.text : (own.fits ? "-" : "!") + own.failure);
  std::size_t failed = 0;
  bool fits = true;
  std::string first;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].starts_with('+')) continue;
    fits = fits && said[rank].starts_with('-');
    if (failed++ == 0) first = fmt::format("rank {}: {}", group.ranks()[rank], said[rank].substr(1));
  }
  if (failed != 0) {
    const std::string text =
        fmt::format("dtrain: {}: {}{}", what, first, failed == 1 ? "" : fmt::format(" ({} ranks failed)", failed));
    if (!fits) throw DoesNotFit(text);
    throw CheckpointError(text);
  }
  for (std::string& text : said) text.erase(0, 1);
  return said;
}

}  // namespace dtrain::checkpoint

namespace dtrain {

std::optional<std::int64_t> Checkpoints::latest() {
  std::vector<std::string> damaged;
  const auto step = checkpoint::newest_of_all(*state_, damaged);
  // Training must not begin anew, and remove with its saves what may still be saved by hand.
  if (!step && !damaged.empty()) throw checkpoint::nothing_to_load(state_->folder, damaged);
  return step;
}

std::optional<std::int64_t> Checkpoints::latest_undamaged() {
  std::vector<std::string> damaged;
  return checkpoint::newest_of_all(*state_, damaged);
}

Loaded Checkpoints::load(CheckpointState& state, const LoadOptions& options) {
  std::vector<std::string> skipped;
  std::int64_t below = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const std::int64_t step = checkpoint::newest(*state_, below, skipped);
    if (!options.fall_back && !skipped.empty())
      throw CheckpointError(fmt::format("dtrain: the newest checkpoint cannot be loaded: {}", skipped[0]));
    if (step < 0) throw checkpoint::nothing_to_load(state_->folder, skipped);
    try {
      Loaded loaded = checkpoint::load_one(*state_, step, state, options);
      loaded.skipped = std::move(skipped);
      return loaded;
    } catch (const CheckpointError& error) {
      if (!options.fall_back || dynamic_cast<const checkpoint::DoesNotFit*>(&error) != nullptr) throw;
      skipped.emplace_back(error.what());
    }
    below = step;
  }
}

Loaded Checkpoints::load_step(std::int64_t step, CheckpointState& state, const LoadOptions& options) {
  return checkpoint::load_one(*state_, step, state, options);
}

void load_safetensors(const Group& group, const std::string& path, std::vector<StatePiece>& pieces,
                      const LoadOptions& options, const std::vector<std::string>& stems) {
  std::vector<checkpoint::LoadHalf> halves(1);
  halves[0].pieces = &pieces;
  const std::string failure = checkpoint::failure_of([&] {
    halves[0].stored = checkpoint::read_plain(path, stems);
    halves[0].stored.strip(options.prefix);
  });
  checkpoint::load_halves(group, path + " cannot be loaded", halves, options, failure);
}

void load_safetensors(const std::string& path, std::vector<StatePiece>& pieces, const LoadOptions& options,
                      const std::vector<std::string>& stems) {
  const std::string failure = checkpoint::failure_of([&] {
    checkpoint::LoadHalf half{&pieces, checkpoint::read_plain(path, stems), {}, {}};
    half.stored.strip(options.prefix);
    if (options.verify) half.sums = checkpoint::sums_beside(path, options.prefix);
    LoadOptions own = options;
    own.verify = !half.sums.empty();
    bool fits = true;
    checkpoint::read_values(half, own, fits);
    if (own.verify) checkpoint::check_sums(0, half, {half.read});
  });
  if (!failure.empty()) throw CheckpointError(fmt::format("dtrain: {} cannot be loaded: {}", path, failure));
}

void load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& options) {
  std::vector<at::Tensor> tensors;
  std::vector<StatePiece> pieces;
  const auto take = [&](const std::string& name, const at::Tensor& tensor) {
    tensors.push_back(tensor.detach());
    pieces.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), 0, tensors.back().reshape(-1)});
  };
  for (const auto& parameter : module.named_parameters()) take(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) take(buffer.key(), buffer.value());
  load_safetensors(path, pieces, options);
  // reshape() has made a copy of what is not contiguous.
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_contiguous()) tensors[i].copy_(pieces[i].values.view(tensors[i].sizes()));
}

std::optional<std::string> newest_checkpoint(const std::string& folder) {
  std::vector<std::string> damaged;
  std::int64_t step = -1;
  const std::string failure = checkpoint::failure_of(
      [&] { step = checkpoint::newest_complete(folder, std::numeric_limits<std::int64_t>::max(), damaged); });
  if (!failure.empty()) throw CheckpointError(fmt::format("dtrain: {}: {}", folder, failure));
  if (step < 0 && !damaged.empty()) throw checkpoint::nothing_to_load(folder, damaged);
  if (step < 0) return std::nullopt;
  return folder + "/" + checkpoint::step_name(step);
}

}  // namespace dtrain
