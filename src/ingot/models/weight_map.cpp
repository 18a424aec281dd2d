#include "ingot/models/weight_map.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

std::string with_number(const std::string& pattern, char mark, std::int64_t number) {
  const std::size_t at = pattern.find(mark);
  return at == std::string::npos ? pattern
                                 : pattern.substr(0, at) + std::to_string(number) + pattern.substr(at + 1);
}

bool is_number(std::string_view part) {
  return !part.empty() && part.size() < 10 &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

// The number that `*` stands for if `name` matches `pattern` (`#` stands for any number); -1 if the pattern
// has no `*`, -2 if it does not match.
std::int64_t matched_layer(std::string_view pattern, std::string_view name) {
  std::int64_t layer = -1;
  while (true) {
    const std::size_t p = pattern.find('.'), n = name.find('.');
    const std::string_view want = pattern.substr(0, p), have = name.substr(0, n);
    if ((want == "*" || want == "#") ? !is_number(have) : want != have) return -2;
    if (want == "*") layer = std::stoll(std::string(have));
    if ((p == std::string_view::npos) != (n == std::string_view::npos)) return -2;
    if (p == std::string_view::npos) return layer;
    pattern.remove_prefix(p + 1);
    name.remove_prefix(n + 1);
  }
}

WeightRule bound(WeightRule rule, std::int64_t layer) {
  if (layer >= 0) {
    rule.ours = with_number(rule.ours, '*', layer);
    rule.theirs = with_number(rule.theirs, '*', layer);
  }
  return rule;
}

}  // namespace

namespace {

// What programs of training put into names: torch.compile, FSDP, and DataParallel in front.
void strip_wrappers(std::string& name) {
  for (const std::string_view wrapper : {"_orig_mod.", "_fsdp_wrapped_module."})
    for (std::size_t at = 0; (at = name.find(wrapper)) != std::string::npos;) name.erase(at, wrapper.size());
  while (name.starts_with("module.")) name.erase(0, std::string_view("module.").size());
}

// Whether x is a stack of a rule's groups, matrices or vectors; not a matrix of one row for each.
bool is_stack(const Tensor& x, const WeightRule& rule) {
  return x.rank() == 3 || (x.rank() == 2 && rule.every > 1 && x.dim(0) == rule.groups);
}

// [groups · rows, ...] as [groups, rows, ...]; a stack is that already.
Tensor in_groups(const Tensor& x, const WeightRule& rule) {
  if (is_stack(x, rule)) return x;
  std::vector<std::int64_t> shape = x.shape().to_vector();
  shape[0] /= rule.groups;
  shape.insert(shape.begin(), rule.groups);
  return reshape(contiguous(x), Shape{std::span<const std::int64_t>(shape)});
}

Tensor without_groups(const Tensor& x, const Tensor& like, const WeightRule& rule) {
  if (is_stack(like, rule)) return x;
  std::vector<std::int64_t> shape = x.shape().to_vector();
  shape[1] *= shape[0];
  shape.erase(shape.begin());
  return reshape(contiguous(x), Shape{std::span<const std::int64_t>(shape)});
}

// The rows of the parts [groups, rows, ...], interleaved.
Tensor interleaved(const std::vector<Tensor>& parts) {
  std::vector<std::int64_t> shape = parts.front().shape().to_vector();
  shape[1] *= static_cast<std::int64_t>(parts.size());
  return reshape(stack(parts, 2), Shape{std::span<const std::int64_t>(shape)});
}

// The rows of a fused matrix, or of each of several, that a rule takes.
Tensor rows_of(const WeightRule& rule, const Tensor& part) {
  if (rule.rows == 0 || part.rank() == 0) return part;
  if (rule.groups > 0) {
    if (part.dim(0) % rule.groups != 0) return {};
    const Tensor groups = in_groups(part, rule);
    if (rule.every > 1) return slice(groups, 1, rule.first, kEnd, rule.every);
    if (groups.dim(1) < rule.first + rule.rows) return {};
    return without_groups(narrow(groups, 1, rule.first, rule.rows), part, rule);
  }
  return part.dim(0) >= rule.first + rule.rows ? narrow(part, 0, rule.first, rule.rows) : part;
}

// The reverse: the pieces of a fused matrix, sorted, as one.
Tensor joined(const std::vector<Tensor>& pieces, const WeightRule& rule) {
  if (pieces.size() == 1) return pieces.front();
  if (rule.groups == 0) return concat(pieces, 0);
  std::vector<Tensor> parts;
  parts.reserve(pieces.size());
  for (const Tensor& piece : pieces) parts.push_back(in_groups(piece, rule));
  return without_groups(rule.every > 1 ? interleaved(parts) : concat(parts, 1), pieces.front(), rule);
}

}  // namespace

std::string WeightMap::canonical(std::string name) const {
  strip_wrappers(name);
  for (const WeightSpelling& spelling : spellings) {
    const std::size_t at = name.find(spelling.found);
    if (at == std::string::npos || (spelling.at_start && at != 0)) continue;
    name.replace(at, spelling.found.size(), spelling.canonical);
  }
  const auto matches = [&name](const std::string& glob) { return glob_match(glob, name); };
  const bool complete = name.starts_with(prefix) || std::ranges::any_of(outside, matches) ||
                        std::ranges::any_of(ignored, matches);
  return complete ? name : prefix + name;
}

WeightRule WeightMap::rule_for(const std::string& ours) const {
  for (const WeightRule& rule : rules) {
    const std::int64_t layer = matched_layer(rule.ours, ours);
    if (layer != -2) return bound(rule, layer);
  }
  return {.ours = ours, .theirs = ours};
}

std::vector<std::string> sources_of(const WeightRule& rule) {
  if (rule.stacked == 0) return {rule.theirs};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < rule.stacked; ++i) names.push_back(with_number(rule.theirs, '#', i));
  return names;
}

Tensor import_tensor(const WeightRule& rule, const std::function<Tensor(const std::string&)>& lookup) {
  const NoGrad no_grad;
  std::vector<Tensor> parts;
  for (const std::string& name : sources_of(rule)) {
    Tensor part = lookup(name);
    if (!part.defined()) return {};
    if (rule.transposed && part.rank() >= 2) part = transpose(part, -2, -1);
    part = rows_of(rule, part);
    if (!part.defined()) return {};
    parts.push_back(std::move(part));
  }
  if (rule.stacked == 0) return contiguous(parts.front());
  const bool alike =
      std::ranges::all_of(parts, [&](const Tensor& part) { return part.shape() == parts.front().shape(); });
  return alike ? stack(parts) : Tensor{};
}

std::map<std::string, Tensor> import_tensors(const WeightMap& map,
                                             const std::map<std::string, Tensor>& checkpoint) {
  std::map<std::string, Tensor> theirs, ours;
  for (const auto& [name, tensor] : checkpoint) theirs[map.canonical(name)] = tensor;
  const auto lookup = [&theirs](const std::string& name) {
    const auto found = theirs.find(name);
    return found == theirs.end() ? Tensor{} : found->second;
  };
  std::set<std::string> used;
  for (const auto& [name, tensor] : theirs) {
    for (const WeightRule& rule : map.rules) {
      const std::int64_t layer = matched_layer(rule.theirs, name);
      if (layer == -2) continue;
      used.insert(name);
      const WeightRule here = bound(rule, layer);
      if (ours.contains(here.ours)) continue;
      if (Tensor value = import_tensor(here, lookup); value.defined()) ours[here.ours] = std::move(value);
    }
  }
  for (const auto& [name, tensor] : theirs) {
    if (!used.contains(name)) ours[name] = tensor;
  }
  return ours;
}

std::map<std::string, Tensor> export_tensors(const WeightMap& map,
                                             const std::map<std::string, Tensor>& ours) {
  const NoGrad no_grad;
  struct Piece {
    WeightRule rule;
    Tensor value;
  };
  std::map<std::string, std::vector<Piece>> gathered;
  for (const auto& [name, tensor] : ours) {
    const WeightRule rule = map.rule_for(name);
    const std::vector<std::string> names = sources_of(rule);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor value = tensor.detach();
      gathered[names[i]].push_back(
          {rule, rule.stacked > 0 ? select(value, 0, static_cast<std::int64_t>(i)) : value});
    }
  }
  std::map<std::string, Tensor> checkpoint;
  for (auto& [name, pieces] : gathered) {
    std::ranges::sort(pieces, {}, [](const Piece& piece) { return piece.rule.first; });
    std::vector<Tensor> values;
    for (const Piece& piece : pieces) values.push_back(piece.value);
    const Tensor whole = joined(values, pieces.front().rule);
    const bool turn = pieces.front().rule.transposed && whole.rank() >= 2;
    checkpoint[name] = contiguous(turn ? transpose(whole, -2, -1) : whole);
  }
  return checkpoint;
}

}  // namespace ingot
