// KeptState: the values of a state go into a slot of the memory side by side, in the order of the pieces.
#include "dtrain/kept_state.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

#include "strategies/checkpoint/pieces.h"
#include "strategies/kept/kept_memory.h"
#include "strategies/kept/told_parts.h"

namespace dtrain {

struct KeptState::State {
  Group world;
  WorkerEnv env;
  std::optional<kept::KeptMemory> memory{};
  std::string why_not{};
  std::string refused{};
  // Of the memory, once it was looked at.
  std::optional<kept::Identity> identity{};
  kept::Found found = kept::nothing_kept();
};

namespace kept {
namespace {

constexpr std::uint64_t kValueAlign = 64;
constexpr std::int64_t kCopyAtOnce = std::int64_t{1} << 20;  // bytes, for one thread

// Where the values of a piece lie in a slot.
struct PieceInSlot {
  const StatePiece* piece = nullptr;
  std::uint64_t at = 0, bytes = 0;
};

struct SlotLayout {
  std::vector<PieceInSlot> pieces;
  Identity identity;
};

std::uint64_t count_of(const StatePiece& piece) {
  return piece.values.defined() ? static_cast<std::uint64_t>(piece.values.numel()) : 0;
}

// FNV-1a, 64 bits: to tell lists of tensors apart.
void mix(std::uint64_t& hash, const void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ULL;
}

SlotLayout slot_layout(const CheckpointState& state, const WorkerEnv& env) {
  SlotLayout layout;
  std::uint64_t hash = 0xcbf29ce484222325ULL, at = 0;
  for (const auto* list : {&state.model, &state.optimizer}) {
    for (const StatePiece& piece : *list) {
      const std::uint64_t bytes = checkpoint::wanted_of(piece).count * c10::elementSize(piece.dtype);
      const std::int64_t numbers[] = {
          static_cast<std::int64_t>(piece.name.size()), static_cast<std::int64_t>(piece.dtype),
          static_cast<std::int64_t>(piece.shape.size()), piece.begin, static_cast<std::int64_t>(bytes)};
      mix(hash, numbers, sizeof numbers);
      mix(hash, piece.name.data(), piece.name.size());
      mix(hash, piece.shape.data(), piece.shape.size() * sizeof(std::int64_t));
      layout.pieces.push_back({&piece, at, bytes});
      at += (bytes + kValueAlign - 1) / kValueAlign * kValueAlign;
    }
  }
  layout.identity = {static_cast<std::uint32_t>(env.rank), static_cast<std::uint32_t>(env.world_size), hash, at};
  return layout;
}

at::Tensor tensor_at(std::byte* at, std::uint64_t count, at::ScalarType type) {
  return at::from_blob(at, {static_cast<std::int64_t>(count)}, at::TensorOptions(type));
}

// Pieces of a copy that several threads make.
struct Stretch {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

void copy_all(const std::vector<Stretch>& stretches) {
  at::parallel_for(0, static_cast<std::int64_t>(stretches.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Stretch& each = stretches[static_cast<std::size_t>(i)];
      std::memcpy(each.to, each.from, each.bytes);
    }
  });
}

void copy_values(const SlotLayout& layout, std::byte* values) {
  const at::NoGradGuard no_grad;
  std::vector<Stretch> stretches;
  for (const auto& [piece, at, bytes] : layout.pieces) {
    if (bytes == 0) continue;
    if (!piece->values.is_cpu() || !piece->values.is_contiguous()) {
      tensor_at(values + at, count_of(*piece), piece->dtype).copy_(piece->values);
      continue;
    }
    const auto* from = static_cast<const std::byte*>(piece->values.const_data_ptr());
    for (std::size_t done = 0; done < bytes; done += kCopyAtOnce)
      stretches.push_back({values + at + done, from + done, std::min<std::size_t>(kCopyAtOnce, bytes - done)});
  }
  copy_all(stretches);
}

std::vector<StatePiece*> pieces_of(CheckpointState& state) {
  std::vector<StatePiece*> pieces;
  for (auto* list : {&state.model, &state.optimizer})
    for (StatePiece& piece : *list) pieces.push_back(&piece);
  return pieces;
}

// The pieces that were kept are those that are to be filled, but for this rank's part of them.
void require_same_pieces(const SlotLayout& layout, const std::vector<StatePiece*>& wanted) {
  const auto same = [](const PieceInSlot& own, const StatePiece* piece) {
    return own.piece->name == piece->name && own.piece->dtype == piece->dtype && own.piece->shape == piece->shape;
  };
  if (!std::equal(layout.pieces.begin(), layout.pieces.end(), wanted.begin(), wanted.end(), same))
    throw checkpoint::Refused("`kept` has other names, types or shapes of tensors than the state that is to be filled");
  for (const StatePiece* piece : wanted) checkpoint::wanted_of(*piece);
}

ToldPart part_of(std::size_t index, const PieceInSlot& own) {
  return {index, static_cast<std::uint64_t>(own.piece->begin), count_of(*own.piece), own.at};
}

// What the part has of the piece, from the values of a slot.
void fill(const StatePiece& wanted, const ToldPart& part, std::byte* values) {
  const auto first = static_cast<std::uint64_t>(wanted.begin);
  const std::uint64_t begin = std::max(first, part.begin),
                      end = std::min(first + count_of(wanted), part.begin + part.count);
  if (begin >= end) return;
  std::byte* const from = values + part.at + (begin - part.begin) * c10::elementSize(wanted.dtype);
  wanted.values.narrow(0, static_cast<std::int64_t>(begin - first), static_cast<std::int64_t>(end - begin))
      .copy_(tensor_at(from, end - begin, wanted.dtype));
}

// From this rank's own slot. The pieces that it has not got all of.
std::vector<std::size_t> fill_own(const SlotLayout& layout, const std::vector<StatePiece*>& wanted, std::byte* values) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> lacking;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ToldPart own = part_of(i, layout.pieces[i]);
    fill(*wanted[i], own, values);
    const std::uint64_t count = count_of(*wanted[i]), first = static_cast<std::uint64_t>(wanted[i]->begin);
    if (count != 0 && (own.begin > first || own.begin + own.count < first + count)) lacking.push_back(i);
  }
  return lacking;
}

// Collective. What some rank lacks comes from the slots of the others. `lacking`: the same on all ranks.
void fill_from_others(const Group& world, const std::string& what, const SlotLayout& layout,
                      const std::set<std::size_t>& lacking, const std::vector<StatePiece*>& wanted, std::byte* values) {
  if (lacking.empty()) return;
  const at::NoGradGuard no_grad;
  ToldParts own{layout.identity.value_bytes, {}};
  for (const std::size_t i : lacking)
    if (layout.pieces[i].bytes != 0) own.parts.push_back(part_of(i, layout.pieces[i]));
  std::vector<ToldParts> told;
  for (const std::string& text : checkpoint::exchange(world, what, {{}, told_text(own)}))
    told.push_back(parse_told(text));
  for (const std::size_t i : lacking)
    if (const auto missing = missing_element(told, i, checkpoint::elements_of(wanted[i]->shape)))
      throw CheckpointError(fmt::format("dtrain: {}: no rank keeps element {} of {}", what, *missing,
                                        checkpoint::shown(wanted[i]->name)));
  for (int rank = 0; rank < world.size(); ++rank) {
    const ToldParts& its = told[static_cast<std::size_t>(rank)];
    if (its.parts.empty()) continue;
    const bool is_own = rank == world.rank();
    const at::Tensor bytes = is_own ? tensor_at(values, its.value_bytes, at::kByte)
                                    : at::empty({static_cast<std::int64_t>(its.value_bytes)}, at::kByte);
    world.broadcast(bytes, rank);
    if (is_own) continue;
    auto* from = static_cast<std::byte*>(bytes.mutable_data_ptr());
    for (const ToldPart& part : its.parts) fill(*wanted[part.index], part, from);
  }
}

}  // namespace
}  // namespace kept

KeptState::KeptState(const Session& session) : state_(new State{session.world(), session.env()}) {
  if (state_->env.state_fd >= 0)
    state_->memory.emplace(state_->env.state_fd);
  else
    state_->why_not = "no kept state here: the workers were not started with `dtrain run --keep-state`";
}
KeptState::~KeptState() = default;
KeptState::KeptState(KeptState&&) noexcept = default;
KeptState& KeptState::operator=(KeptState&&) noexcept = default;

bool KeptState::here() const { return state_->memory.has_value(); }
const std::string& KeptState::why_not() const { return state_->why_not; }
const std::string& KeptState::refused() const { return state_->refused; }

void KeptState::keep(const CheckpointState& state) {
  if (!here()) return;
  State& self = *state_;
  const std::string failure = checkpoint::failure_of([&] {
    if (state.step < 0) throw checkpoint::Refused("the step is below 0");
    const kept::SlotLayout layout = kept::slot_layout(state, self.env);
    const std::string_view extra = self.env.rank == 0 ? std::string_view(state.extra) : std::string_view();
    if (extra.size() > kept::kExtraBytes)
      throw checkpoint::Refused(
          fmt::format("`extra` has {} bytes, and there is room for {}", extra.size(), kept::kExtraBytes));
    if (!self.identity || self.identity->fingerprint != layout.identity.fingerprint) {
      self.identity.reset();  // of what `found` tells, should this fail
      self.found = self.memory->find(layout.identity);
      if (!self.found.why_not.empty()) self.memory->lay_out(layout.identity);
      self.identity = layout.identity;
    }
    const std::size_t slot = kept::next_slot(self.found);
    self.memory->empty(slot);
    self.found.slots[slot].reset();
    kept::copy_values(layout, self.memory->values(slot));
    std::transform(extra.begin(), extra.end(), self.memory->extra(slot),
                   [](char c) { return static_cast<std::byte>(c); });
    const kept::Slot what{{static_cast<std::uint32_t>(self.env.round), state.step}, extra.size()};
    self.memory->commit(slot, what);
    self.found.slots[slot] = what;
  });
  if (!failure.empty())
    throw CheckpointError(
        fmt::format("dtrain: rank {} cannot keep the state of step {}: {}", self.env.rank, state.step, failure));
}

std::optional<Loaded> KeptState::restore(CheckpointState& state, const CheckpointState* kept, std::int64_t at_least) {
  State& self = *state_;
  const std::string what = "the kept state cannot be restored";
  kept::SlotLayout layout;
  checkpoint::Said own;
  const auto wanted = kept::pieces_of(state);
  self.identity.reset();
  own.failure = checkpoint::failure_of([&] {
    layout = kept::slot_layout(kept != nullptr ? *kept : state, self.env);
    kept::require_same_pieces(layout, wanted);
    self.found = here() ? self.memory->find(layout.identity) : kept::nothing_kept();
    if (!here()) self.found.why_not = self.why_not;
    own.text = kept::found_text(self.found);
  });
  std::vector<kept::Found> of_ranks;
  for (const std::string& text : checkpoint::exchange(self.world, what, own))
    of_ranks.push_back(kept::parse_found(text));
  const kept::Choice choice = kept::choose(of_ranks);
  self.refused = choice.refused;
  if (!choice.stamp || choice.stamp->step < at_least) return std::nullopt;
  self.identity = layout.identity;
  const std::size_t slot = self.found.slots[0] && self.found.slots[0]->stamp == *choice.stamp ? 0 : 1;
  const std::size_t other = 1 - slot;
  own = {};
  own.failure = checkpoint::failure_of([&] {
    own.text = fmt::format("{}\n", fmt::join(kept::fill_own(layout, wanted, self.memory->values(slot)), " "));
    if (self.env.rank == 0)
      own.text.append(reinterpret_cast<const char*>(self.memory->extra(slot)), self.found.slots[slot]->extra_bytes);
  });
  const std::vector<std::string> said = checkpoint::exchange(self.world, what, own);
  state.step = choice.stamp->step;
  state.extra = said[0].substr(said[0].find('\n') + 1);
  std::set<std::size_t> lacking;
  for (const std::string& text : said) {
    std::istringstream words(text.substr(0, text.find('\n')));
    for (std::size_t i = 0; words >> i;) lacking.insert(i);
  }
  kept::fill_from_others(self.world, what, layout, lacking, wanted, self.memory->values(slot));
  // A later step, which not all ranks have, is made anew: this slot is the next one to be filled.
  if (self.found.slots[other] && self.found.slots[other]->stamp > *choice.stamp) {
    self.memory->empty(other);
    self.found.slots[other].reset();
  }
  Loaded loaded{state.step, state.extra, self.world.size(), {}};
  loaded.from_memory = true;
  return loaded;
}

}  // namespace dtrain
