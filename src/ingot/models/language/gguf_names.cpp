#include "ingot/models/language/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ingot/models/language/family.h"

namespace ingot {
namespace {

/// Matches `pattern`, whose `*` and `#` stand for numbers.
bool matches(std::string_view pattern, std::string_view name, std::int64_t& layer, std::int64_t& expert) {
  std::size_t at = 0;
  for (const char c : pattern) {
    if (c != '*' && c != '#') {
      if (at == name.size() || name[at++] != c) return false;
      continue;
    }
    std::int64_t& number = c == '*' ? layer : expert;
    const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (error != std::errc() || number < 0 || (name[at] == '0' && end != name.data() + at + 1)) return false;
    at = static_cast<std::size_t>(end - name.data());
  }
  return at == name.size();
}

std::string filled(std::string_view pattern, std::int64_t layer, std::int64_t expert) {
  std::string name;
  for (const char c : pattern) {
    if (c == '*' || c == '#') {
      name += std::to_string(c == '*' ? layer : expert);
    } else {
      name += c;
    }
  }
  return name;
}

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

// What stands behind a name in a checkpoint where it is `suffix` in GGUF.
std::string_view checkpoint_suffix(const GgufNameRule& rule, std::string_view suffix) {
  if (rule.change == GgufChange::unsuffixed) return kWeight;
  if (!is_bare(rule.change)) return suffix;
  return suffix == kWeight ? "" : "_bias";
}

template <class SuffixOf>
std::optional<GgufNameMatch> match(const GgufFamily& family, std::string_view name,
                                   std::string_view GgufNameRule::*side, SuffixOf&& suffix_of) {
  for (const std::string_view suffix : {kWeight, kBias, std::string_view()}) {
    for (const GgufNameRule& rule : family.names) {
      if (is_whole(rule.change) != suffix.empty()) continue;
      const std::string_view end = suffix_of(rule, suffix);
      if (!name.ends_with(end)) continue;
      GgufNameMatch found{&rule, -1, -1, std::string(suffix)};
      if (matches(rule.*side, name.substr(0, name.size() - end.size()), found.layer, found.expert))
        return found;
    }
  }
  return std::nullopt;
}

}  // namespace

GgufFamily named_for(GgufFamily family, bool has_experts) {
  if (has_experts && !family.expert_names.empty()) family.names = family.expert_names;
  if (has_experts && !family.expert_architecture.empty()) family.architecture = family.expert_architecture;
  return family;
}

const LanguageFamily* find_gguf_family(std::string_view architecture, bool has_experts) {
  const std::span<const LanguageFamily> all = language_families();
  const auto found = std::ranges::find_if(all, [&](const LanguageFamily& family) {
    if (!family.gguf.expert_architecture.empty())
      return (has_experts ? family.gguf.expert_architecture : family.gguf.architecture) == architecture;
    return family.gguf.architecture == architecture && family.experts == has_experts;
  });
  return found == all.end() || architecture.empty() ? nullptr : &*found;
}

std::vector<std::string> known_gguf_architectures() {
  std::set<std::string> names;
  for (const LanguageFamily& family : language_families()) {
    for (const std::string_view name : {family.gguf.architecture, family.gguf.expert_architecture})
      if (!name.empty()) names.emplace(name);
  }
  names.emplace("gemma-embedding");  // Gemma 3's row, with attention both ways
  return {names.begin(), names.end()};
}

std::string GgufNameMatch::gguf() const { return filled(rule->gguf, layer, expert) + suffix; }
std::string GgufNameMatch::hugging_face() const { return hugging_face(expert); }
std::string GgufNameMatch::hugging_face(std::int64_t expert_number) const {
  return filled(rule->hugging_face, layer, expert_number) + std::string(checkpoint_suffix(*rule, suffix));
}

std::vector<Transform> exchanged_groups(const TensorInfo& info, std::int64_t outer, std::int64_t inner,
                                        std::int64_t head) {
  if (info.shape.size() == 1)
    return {Transform::reshape({outer, inner, head}), Transform::permute({1, 0, 2}),
            Transform::reshape({-1})};
  return {Transform::reshape({outer, inner, head, -1}), Transform::permute({1, 0, 2, 3}),
          Transform::reshape({outer * inner * head, -1})};
}

namespace {

Transform reshaped(std::vector<std::int64_t> shape, bool matrix) {
  if (matrix) shape.push_back(-1);
  return Transform::reshape(std::move(shape));
}

}  // namespace

std::vector<std::vector<Transform>> GroupedHeads::taken_apart(bool matrix) const {
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return std::vector{reshaped({groups, queries + 2, head}, matrix), Transform::slice(1, begin, end),
                       reshaped({groups * (end - begin) * head}, matrix)};
  };
  return {part(0, queries), part(queries, queries + 1), part(queries + 1, queries + 2)};
}

std::vector<std::vector<Transform>> GroupedHeads::grouped(bool matrix) const {
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return std::vector{Transform::slice(0, groups * begin * head, groups * (begin + count) * head),
                       reshaped({groups, count, head}, matrix)};
  };
  return {part(0, queries), part(queries, 1), part(queries + 1, 1)};
}

std::vector<Transform> GroupedHeads::whole(bool matrix) const {
  return {reshaped({groups * (queries + 2) * head}, matrix)};
}

std::string_view part_of(std::string_view gguf_name) {
  return gguf_name.substr(gguf_name.rfind('.') == std::string_view::npos ? 0 : gguf_name.rfind('.') + 1);
}

std::string json_pointer(std::string_view key) {
  std::string pointer = "/" + std::string(key);
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

std::optional<GgufNameMatch> match_gguf_name(const GgufFamily& family, std::string_view name) {
  return match(family, name, &GgufNameRule::gguf,
               [](const GgufNameRule&, std::string_view suffix) { return suffix; });
}
std::optional<GgufNameMatch> match_hugging_face_name(const GgufFamily& family, std::string_view name) {
  return match(family, name, &GgufNameRule::hugging_face, checkpoint_suffix);
}

}  // namespace ingot
