#include "ingot/train/optimizer_shard.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/memory.h"
#include "ingot/dist/ordered_sum.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/kernels/quant_map_8bit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/optim/optimizer.h"

namespace ingot {
namespace {

using dist::Slice;

constexpr std::size_t kCut = kernels::kNormBlock;  // a multiple of the blocks of 8-bit moments
constexpr char kBegin = '@';                       // "layers.0.weight.exp_avg@16384"

void copy_values(const Tensor& from, const Tensor& to) {
  backend(to.device()).copy(to.view().data, from.view().data, from.nbytes(), current_stream(to.device()));
}

// Where a bucket may be divided: at parameters, and within those that may be. What is left of one is never so
// small that its moments would be kept otherwise than the whole's.
std::vector<std::size_t> cuts_of(const GradBuckets::Layout& layout, std::span<Parameter* const> parameters,
                                 FunctionRef<bool(const Parameter&)> divisible) {
  constexpr auto kLeast = static_cast<std::size_t>(AdamWConfig::kLeastQuantized);
  std::vector<std::size_t> cuts;
  for (const GradBuckets::Layout::Item& item : layout.items) {
    cuts.push_back(item.begin);
    const Parameter& parameter = *parameters[item.leaf];
    if (!divisible(parameter)) continue;
    const auto n = static_cast<std::size_t>(parameter.value.numel());
    for (std::size_t i = kCut; i + kLeast <= n; i += kCut) cuts.push_back(item.begin + i);
  }
  cuts.push_back(layout.elements);
  return cuts;
}

// As equal as the cuts allow. Ranks take turns with the slices from bucket to bucket, so that none has all
// the large ones.
std::vector<Slice> divide(std::span<const std::size_t> cuts, std::size_t bucket, std::size_t ranks) {
  const auto nearest = [&](std::size_t wanted) {
    const auto above = std::ranges::lower_bound(cuts, wanted);
    if (above == cuts.begin()) return *above;
    const std::size_t below = *(above - 1);
    return *above - wanted < wanted - below ? *above : below;
  };
  std::vector<Slice> slices(ranks);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t end = i + 1 == ranks ? cuts.back() : nearest(cuts.back() * (i + 1) / ranks);
    slices[(i + bucket) % ranks] = {begin, end};
    begin = end;
  }
  return slices;
}

// Blocks of the gradients' norm, by parameter, where there is a gradient; and how many there are.
std::vector<std::size_t> first_norm_blocks(std::span<Parameter* const> parameters,
                                           std::span<const float> written) {
  std::vector<std::size_t> first{0};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const View value = parameters[i]->value.view();
    const auto blocks = static_cast<std::size_t>(kernels::norm_partials(std::span(&value, 1)));
    first.push_back(first.back() + (written[i] > 0 ? blocks : 0));
  }
  return first;
}

struct StateName {
  std::string parameter, kind;
};
StateName parse_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

OptimizerShard::OptimizerShard(std::span<Parameter* const> parameters, const Options& options,
                               FunctionRef<bool(const Parameter&)> divisible)
    : parameters_(parameters.begin(), parameters.end()), options_(options), written_(parameters.size()) {
  std::vector<Tensor> leaves;
  leaves.reserve(parameters_.size());
  for (const Parameter* parameter : parameters_) leaves.push_back(parameter->value);
  for (GradBuckets::Layout& layout : GradBuckets::lay_out(leaves, options_.bucket_bytes, options_.blocks)) {
    const std::vector<std::size_t> cuts = cuts_of(layout, parameters_, divisible);
    const auto ranks = static_cast<std::size_t>(options_.communicator->size());
    Bucket bucket{.layout = std::move(layout), .slices = divide(cuts, buckets_.size(), ranks), .parts = {}};
    if (!options_.blocks.empty()) bucket.block = options_.blocks[bucket.layout.items.front().leaf];
    const Slice own = bucket.slices[static_cast<std::size_t>(options_.communicator->rank())];
    for (const GradBuckets::Layout::Item& item : bucket.layout.items) {
      Part part = make_part(item, own);
      if (part.elements.size() > 0) bucket.parts.push_back(std::move(part));
    }
    if (bucket.block >= 0) divide_values(bucket, own);
    buckets_.push_back(std::move(bucket));
  }
}

// The parts get memory of their own, as that of the whole will go.
void OptimizerShard::divide_values(Bucket& bucket, const Slice& slice) const {
  const MemoryTagScope tag(MemoryTag::parameter);
  const Tensor& first = parameters_[bucket.layout.items.front().leaf]->value;
  bucket.own = Tensor::zeros({static_cast<std::int64_t>(slice.size())}, first.dtype(), first.device());
  for (const Part& part : bucket.parts) {
    Tensor& value = part.parameter->value;
    const Tensor place = dist::slice_of(bucket.own, {part.at, part.at + part.elements.size()});
    copy_values(value.detach(), place);
    value = Tensor(place.storage(),
                   contiguous_view(place.view().data, value.shape(), value.dtype(), value.device()));
    value.set_requires_grad(true);
  }
}

std::vector<GradBuckets::Layout> OptimizerShard::layouts() const {
  std::vector<GradBuckets::Layout> all;
  all.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) all.push_back(bucket.layout);
  return all;
}

OptimizerShard::Part OptimizerShard::make_part(const GradBuckets::Layout::Item& item,
                                               const Slice& own) const {
  const Parameter& whole = *parameters_[item.leaf];
  const auto n = static_cast<std::size_t>(whole.value.numel());
  const std::size_t begin = std::clamp(own.begin, item.begin, item.begin + n) - item.begin,
                    end = std::clamp(own.end, item.begin, item.begin + n) - item.begin;
  Part part{.parameter = nullptr, .of = item.leaf, .elements = {begin, end}};
  if (begin == end) return part;
  part.at = item.begin + begin - own.begin;
  const Tensor value = whole.value.detach();
  part.parameter = std::make_unique<Parameter>(
      whole.name, end - begin == n ? value : dist::slice_of(value, part.elements), true, whole.decay);
  part.parameter->embedding = whole.embedding;
  return part;
}

std::vector<Parameter*> OptimizerShard::parts() const {
  std::vector<Parameter*> all;
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts) all.push_back(part.parameter.get());
  all.insert(all.end(), options_.experts.begin(), options_.experts.end());
  return all;
}

const Slice& OptimizerShard::own_slice(std::size_t bucket) const {
  return buckets_[bucket].slices[static_cast<std::size_t>(options_.communicator->rank())];
}

void OptimizerShard::set_gradients(std::span<const Tensor> sums, std::span<const float> written) {
  written_.assign(written.begin(), written.end());
  sum_expert_gradients();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const Part& part : buckets_[i].parts) {
      const Tensor& value = part.parameter->value;
      const Tensor flat = dist::slice_of(sums[i], {part.at, part.at + part.elements.size()});
      const View view = contiguous_view(flat.view().data, value.shape(), value.dtype(), value.device());
      value.set_grad(written_[part.of] > 0 ? Tensor(flat.storage(), view) : Tensor{});
    }
  }
}

int OptimizerShard::group_size() const {
  return options_.expert_group > 0 ? options_.expert_group : options_.communicator->size();
}

// Over the groups, in the order of ranks. Where a group had no row for an expert it has no gradient.
void OptimizerShard::sum_expert_gradients() const {
  dist::Communicator* const peers = options_.expert_peers;
  if (peers == nullptr) return;
  const auto ranks = static_cast<std::size_t>(peers->size());
  for (const Parameter* expert : options_.experts) {
    const Tensor& value = expert->value;
    const Tensor own = expert->grad();
    const std::uint8_t has = own.defined() ? 1 : 0;
    std::vector<std::uint8_t> have(ranks);
    peers->all_gather(std::as_bytes(std::span(&has, 1)), std::as_writable_bytes(std::span(have)));
    const std::vector<bool> contributes(have.begin(), have.end());
    if (std::ranges::find(contributes, true) == contributes.end()) continue;
    const MemoryTagScope tag(MemoryTag::gradient);
    const Tensor sum =
        own.defined() ? contiguous(own) : Tensor::zeros(value.shape(), value.dtype(), value.device());
    const auto n = static_cast<std::size_t>(sum.numel());
    const Tensor flat = dist::slice_of(sum, {0, n});
    const std::vector<Slice> slices = dist::equal_slices(n, peers->size());
    backend(sum.device()).synchronize(current_stream(sum.device()));
    dist::ordered_reduce_scatter(*peers, flat, slices, contributes,
                                 dist::slice_of(flat, slices[static_cast<std::size_t>(peers->rank())]),
                                 false);
    dist::all_gather(*peers, flat, slices);
    value.set_grad(sum);
  }
}

// The sums of squares of a part's gradient, if it has one, from block `begin` on.
void OptimizerShard::add_norm_blocks(const Parameter& part, const Tensor& partials, std::size_t begin,
                                     const Tensor& norm) const {
  const Tensor gradient = part.grad();
  if (!gradient.defined()) return;
  const View view = gradient.view();
  const auto blocks = static_cast<std::size_t>(kernels::norm_partials(std::span(&view, 1)));
  kernels::launch(kernels::global_norm, current_stream(view.device),
                  {.tensors = std::span(&view, 1),
                   .partials = dist::slice_of(partials, {begin, begin + blocks}).view(),
                   .norm = norm.view()});
}

std::int64_t OptimizerShard::expert_norm_blocks() const {
  std::int64_t blocks = 0;
  for (const Parameter* expert : options_.experts) {
    const View value = expert->value.view();
    blocks += kernels::norm_partials(std::span(&value, 1));
  }
  return blocks;
}

ClippedNorm OptimizerShard::norm(double max_norm) const {
  const Device device = parameters_.empty() ? kCpu : parameters_[0]->value.device();
  const Stream stream = current_stream(device);
  ClippedNorm result{Tensor::empty({}, DType::f32, device), Tensor::empty({}, DType::f32, device)};
  const std::vector<std::size_t> first = first_norm_blocks(parameters_, written_);
  const std::int64_t of_experts = expert_norm_blocks();
  const auto dense = static_cast<std::int64_t>(first.back());
  const Tensor partials = Tensor::zeros({dense + of_experts * group_size()}, DType::f64, device);
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts)
      add_norm_blocks(*part.parameter, partials, first[part.of] + part.elements.begin / kCut, result.norm);
  auto next = static_cast<std::size_t>(dense + of_experts * (options_.communicator->rank() % group_size()));
  for (const Parameter* expert : options_.experts) {
    if (!is_of_first_group()) break;  // its gradients are those of the others
    add_norm_blocks(*expert, partials, next, result.norm);
    const View value = expert->value.view();
    next += static_cast<std::size_t>(kernels::norm_partials(std::span(&value, 1)));
  }
  // Each block is zero on all ranks but one.
  const std::vector<double> own = partials.to_vector<double>();
  std::vector<double> all(own.size() * static_cast<std::size_t>(options_.communicator->size()));
  options_.communicator->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  std::vector<double> sums(own.size());
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % own.size()] += all[i];
  backend(device).copy(partials.view().data, sums.data(), partials.nbytes(), stream);
  kernels::launch(kernels::global_norm, stream,
                  {.tensors = {},
                   .partials = partials.view(),
                   .norm = result.norm.view(),
                   .clip = result.factor.view(),
                   .max_norm = max_norm});
  backend(device).synchronize(stream);  // the copy is done with `sums`
  return result;
}

Tensor OptimizerShard::own_values(std::size_t i) const {
  const Bucket& bucket = buckets_[i];
  const Tensor& first = parameters_[bucket.layout.items.front().leaf]->value;
  Tensor values =
      Tensor::empty({static_cast<std::int64_t>(bucket.layout.elements)}, first.dtype(), first.device());
  for (const Part& part : bucket.parts) {
    const std::size_t begin = own_slice(i).begin + part.at;
    copy_values(part.parameter->value, dist::slice_of(values, {begin, begin + part.elements.size()}));
  }
  if (bucket.own.defined()) values.storage()->continue_version(*bucket.own.storage());
  return values;
}

void OptimizerShard::gather(std::size_t bucket, const Tensor& values) const {
  dist::all_gather(*options_.communicator, values, buckets_[bucket].slices);
}

void OptimizerShard::unshard(std::size_t bucket, const Tensor& values) const {
  for (const GradBuckets::Layout::Item& item : buckets_[bucket].layout.items) {
    Tensor& value = parameters_[item.leaf]->value;
    char* data = values.view().as<char>() + item.begin * byte_size(value.dtype());
    Tensor here(values.storage(), contiguous_view(data, value.shape(), value.dtype(), value.device()));
    here.set_autograd_meta(value.autograd_meta());
    value = std::move(here);
  }
}

void OptimizerShard::reshard(std::size_t bucket) const {
  for (const GradBuckets::Layout::Item& item : buckets_[bucket].layout.items) {
    Tensor& value = parameters_[item.leaf]->value;
    Tensor away({}, contiguous_view(nullptr, value.shape(), value.dtype(), value.device()));
    away.set_autograd_meta(value.autograd_meta());
    value = std::move(away);
  }
}

std::int64_t OptimizerShard::blocks() const {
  return options_.blocks.empty() ? 0 : *std::ranges::max_element(options_.blocks) + 1;
}

std::vector<std::size_t> OptimizerShard::buckets_of(std::int64_t block) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].block == block) found.push_back(i);
  return found;
}

std::vector<Parameter*> OptimizerShard::parameters_of(std::size_t bucket) const {
  std::vector<Parameter*> all;
  for (const GradBuckets::Layout::Item& item : buckets_[bucket].layout.items)
    all.push_back(parameters_[item.leaf]);
  return all;
}

void OptimizerShard::gather_values() const {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (bucket.block >= 0) continue;
    const Tensor values = own_values(i);
    backend(values.device()).synchronize(current_stream(values.device()));  // for the engine that sends them
    gather(i, values);
    for (const GradBuckets::Layout::Item& item : bucket.layout.items) {
      const Tensor& value = parameters_[item.leaf]->value;
      const auto n = static_cast<std::size_t>(value.numel());
      copy_values(dist::slice_of(values, {item.begin, item.begin + n}), value);
      value.storage()->bump_version();
    }
  }
}

const OptimizerShard::Part* OptimizerShard::find(const std::string& parameter) const {
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts)
      if (part.parameter->name == parameter) return &part;
  return nullptr;
}

const Parameter* OptimizerShard::find_expert(const std::string& parameter) const {
  const auto found = std::ranges::find(options_.experts, parameter, &Parameter::name);
  return found == options_.experts.end() ? nullptr : *found;
}

Slice OptimizerShard::elements_of_expert(const Parameter& own) const {
  const auto n = static_cast<std::size_t>(own.value.numel()),
             rank = static_cast<std::size_t>(options_.communicator->rank() % group_size());
  return {rank * n, (rank + 1) * n};
}

std::map<std::string, Tensor> OptimizerShard::named_state(const std::map<std::string, Tensor>& state) const {
  std::map<std::string, Tensor> named;
  for (const auto& [name, tensor] : state) {
    const std::string parameter = parse_name(name).parameter;
    if (const Parameter* expert = find_expert(parameter)) {
      if (!is_of_first_group()) continue;  // which has the same
      named[fmt::format("{}{}{}", name, kBegin, elements_of_expert(*expert).begin)] = tensor;
      continue;
    }
    const Part* part = find(parameter);
    const bool whole = part == nullptr || static_cast<std::int64_t>(part->elements.size()) ==
                                              parameters_[part->of]->value.numel();
    named[whole ? name : fmt::format("{}{}{}", name, kBegin, part->elements.begin)] = tensor;
  }
  return named;
}

namespace {

// Elements of the state of a whole parameter of `n` elements, as that of a part with this value.
Tensor state_of(const Tensor& whole, const Tensor& value, const Slice& elements, std::int64_t n) {
  const bool scales = whole.numel() != n && whole.shape().rank() == 1;
  if (whole.shape().rank() == 0 || (scales && value.numel() == n)) return whole;
  // A scale for each block of moments, or a number for each element.
  const std::size_t each = scales ? kernels::kMomentBlock : 1;
  const Tensor flat = dist::slice_of(whole, {elements.begin / each, (elements.end + each - 1) / each});
  if (scales) return flat;
  return {flat.storage(), contiguous_view(flat.view().data, value.shape(), flat.dtype(), flat.device())};
}

}  // namespace

std::map<std::string, Tensor> OptimizerShard::part_of(const std::map<std::string, Tensor>& whole) const {
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : whole) {
    const std::string parameter = parse_name(name).parameter;
    if (const Part* part = find(parameter)) {
      state[name] =
          state_of(tensor, part->parameter->value, part->elements, parameters_[part->of]->value.numel());
    } else if (const Parameter* expert = find_expert(parameter)) {
      state[name] =
          state_of(tensor, expert->value, elements_of_expert(*expert), expert->value.numel() * group_size());
    } else if (std::ranges::find(parameters_, parameter, &Parameter::name) == parameters_.end()) {
      state[name] = tensor;
    }
  }
  return state;
}

// Every expert is of the rank before the next's.
void OptimizerShard::gather_experts(const std::map<std::string, Tensor>& of_parts,
                                    std::map<std::string, Tensor>& whole) const {
  const auto ranks = static_cast<std::size_t>(options_.communicator->size());
  for (const Parameter* expert : options_.experts) {
    const Tensor& own = of_parts.at(expert->name);
    const auto n = static_cast<std::size_t>(own.numel());
    const Tensor values =
        Tensor::empty(own.shape().with(0, own.dim(0) * group_size()), own.dtype(), own.device());
    std::vector<Slice> slices;
    slices.reserve(ranks);
    const std::size_t whole_size =
        n * static_cast<std::size_t>(group_size());  // of which the first group has all
    for (std::size_t r = 0; r < ranks; ++r)
      slices.push_back({std::min(r * n, whole_size), std::min((r + 1) * n, whole_size)});
    copy_values(own, dist::slice_of(values, elements_of_expert(*expert)));
    backend(values.device()).synchronize(current_stream(values.device()));
    dist::all_gather(*options_.communicator, values, slices);
    if (options_.communicator->is_first()) whole[expert->name] = to(values, kCpu);
  }
}

std::map<std::string, Tensor> OptimizerShard::gather_experts() const {
  std::map<std::string, Tensor> own, whole;
  for (const Parameter* expert : options_.experts) own[expert->name] = expert->value.detach();
  gather_experts(own, whole);
  return whole;
}

std::map<std::string, Tensor> OptimizerShard::gather_parts(
    const std::map<std::string, Tensor>& of_parts) const {
  std::map<std::string, Tensor> whole;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    const Tensor& first = parameters_[bucket.layout.items.front().leaf]->value;
    const Tensor values = Tensor::empty({static_cast<std::int64_t>(bucket.layout.elements)},
                                        accumulator_dtype(first.dtype()), first.device());
    for (const Part& part : bucket.parts) {
      const std::size_t begin = own_slice(i).begin + part.at;
      copy_values(of_parts.at(part.parameter->name),
                  dist::slice_of(values, {begin, begin + part.elements.size()}));
    }
    backend(values.device()).synchronize(current_stream(values.device()));
    gather(i, values);
    if (!options_.communicator->is_first()) continue;
    for (const GradBuckets::Layout::Item& item : bucket.layout.items) {
      const Parameter& parameter = *parameters_[item.leaf];
      const auto n = static_cast<std::size_t>(parameter.value.numel());
      const Tensor flat = dist::slice_of(values, {item.begin, item.begin + n});
      const Tensor shaped(flat.storage(),
                          contiguous_view(flat.view().data, parameter.shape(), flat.dtype(), flat.device()));
      whole[parameter.name] = has_host_memory(shaped.device()) ? clone(shaped) : to(shaped, kCpu);
    }
  }
  gather_experts(of_parts, whole);
  return whole;
}

std::optional<OptimizerShard::Options> shared_by(dist::Communicator* ranks, std::int64_t stage) {
  if (ranks == nullptr || stage == 0) return std::nullopt;
  return OptimizerShard::Options{.communicator = ranks, .stage = static_cast<int>(stage)};
}

std::map<std::string, Tensor> assemble_state(const std::map<std::string, Tensor>& of_all_ranks) {
  std::map<std::string, Tensor> whole;
  std::map<std::string, std::map<std::size_t, Tensor>> divided;
  for (const auto& [name, tensor] : of_all_ranks) {
    const std::size_t at = name.rfind(kBegin);
    std::size_t begin = 0;
    const char* end = name.data() + name.size();
    if (at == std::string::npos || std::from_chars(name.data() + at + 1, end, begin).ptr != end)
      whole[name] = tensor;
    else
      divided[name.substr(0, at)][begin] = tensor;
  }
  for (const auto& [name, parts] : divided) {
    const Tensor& first = parts.begin()->second;
    whole[name] = first;
    if (first.shape().rank() == 0) continue;  // a count of steps, which they share
    std::int64_t n = 0;
    for (const auto& [begin, part] : parts) n += part.numel();
    const Tensor all = Tensor::empty({n}, first.dtype());
    std::size_t next = 0;
    for (const auto& [begin, part] : parts) {
      const auto size = static_cast<std::size_t>(part.numel());
      copy_values(part, dist::slice_of(all, {next, next + size}));
      next += size;
    }
    whole[name] = all;
  }
  return whole;
}

}  // namespace ingot
