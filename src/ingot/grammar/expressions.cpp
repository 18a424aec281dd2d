#include "ingot/grammar/expressions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/grammar/time_limit.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostListed = 8'000'000;   // alternatives and conditions of all expressions
constexpr std::size_t kMostMerged = 64'000'000;  // alternatives put together: a second's work
constexpr int kMostDepth = 5'000;                // a call deep each

/// Counts calls within calls, also where one of them throws.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace

Expressions::Expressions() {
  intern({.kind = Kind::nothing});
  intern({.kind = Kind::empty, .nullable = true});
}

// The id of an expression that may be there already. Its parts, written as bytes, are the key.
ExprId Expressions::intern(Node node, std::span<const ExprId> list) {
  std::string key(1, static_cast<char>(node.kind));
  const auto add = [&](const void* data, std::size_t bytes) {
    key.append(static_cast<const char*>(data), bytes);
  };
  if (node.kind == Kind::bytes) {
    add(sets_[node.a].words.data(), sizeof(ByteSet));
  } else if (!list.empty()) {
    add(list.data(), list.size_bytes());
  } else {
    const std::array numbers{node.a, node.b, node.least, node.most};
    add(numbers.data(), sizeof(numbers));
  }
  const auto [found, is_new] = known_.try_emplace(std::move(key), static_cast<ExprId>(nodes_.size()));
  if (!is_new) {
    if (node.kind == Kind::bytes) sets_.pop_back();
    return found->second;
  }
  if (!list.empty()) {
    INGOT_CHECK(lists_.size() + list.size() < kMostListed,
                InvalidConfig("grammar", "needs too much memory: its patterns have too many alternatives"));
    node.a = static_cast<std::uint32_t>(lists_.size());
    lists_.insert(lists_.end(), list.begin(), list.end());
    node.b = static_cast<std::uint32_t>(lists_.size());
  }
  nodes_.push_back(node);
  return found->second;
}

ExprId Expressions::bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  sets_.push_back(set);
  return intern({.kind = Kind::bytes, .a = static_cast<std::uint32_t>(sets_.size() - 1)});
}

ExprId Expressions::literal(std::string_view text) {
  ExprId id = kEmpty;
  for (std::size_t i = text.size(); i-- > 0;)
    id = concat(bytes(ByteSet::of(static_cast<unsigned char>(text[i]))), id);
  return id;
}

ExprId Expressions::one_of(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return one_of_sorted(texts, 0);
}

// The texts, which are sorted, from `depth` on.
ExprId Expressions::one_of_sorted(std::span<const std::string> texts, std::size_t depth) {
  const std::string &first = texts.front(), &last = texts.back();
  std::size_t same = depth;
  while (same < first.size() && same < last.size() && first[same] == last[same]) ++same;
  const ExprId shared = literal(std::string_view(first).substr(depth, same - depth));
  if (texts.size() == 1) return shared;
  std::vector<ExprId> choices;
  for (std::size_t begin = 0; begin < texts.size();) {
    if (texts[begin].size() == same) {
      choices.push_back(kEmpty);
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < texts.size() && texts[end][same] == texts[begin][same]) ++end;
    choices.push_back(one_of_sorted(texts.subspan(begin, end - begin), same));
    begin = end;
  }
  return concat(shared, either(std::move(choices)));
}

ExprId Expressions::concat(ExprId first, ExprId then) {
  if (first == kNothing || then == kNothing) return kNothing;
  if (first == kEmpty) return then;
  if (then == kEmpty) return first;
  // To the right, so that equal sequences are one expression.
  std::vector<ExprId> heads;
  while (nodes_[first].kind == Kind::concat) {
    heads.push_back(nodes_[first].a);
    first = nodes_[first].b;
  }
  heads.push_back(first);
  ExprId id = then;
  for (std::size_t i = heads.size(); i-- > 0;) {
    id = intern({.kind = Kind::concat,
                 .nullable = nodes_[heads[i]].nullable && nodes_[id].nullable,
                 .boolean = nodes_[heads[i]].boolean || nodes_[id].boolean,
                 .a = heads[i],
                 .b = id});
  }
  return id;
}

ExprId Expressions::concat(std::span<const ExprId> parts) {
  ExprId id = kEmpty;
  for (std::size_t i = parts.size(); i-- > 0;) id = concat(parts[i], id);
  return id;
}

ExprId Expressions::either(std::vector<ExprId> choices) {
  std::vector<ExprId> flat;
  ByteSet single;
  begin_visits();
  for (const ExprId each : choices) {
    const Node node = nodes_[each];
    if (node.kind == Kind::either) {
      merged_ += node.b - node.a;
      for (const ExprId inner : list(node)) {
        if (nodes_[inner].kind == Kind::bytes) {
          single |= sets_[nodes_[inner].a];
        } else if (visits_first(inner)) {
          flat.push_back(inner);
        }
      }
    } else if (node.kind == Kind::bytes) {
      single |= sets_[node.a];
    } else if (node.kind == Kind::no && node.a == kNothing) {
      return each;
    } else if (node.kind != Kind::nothing && visits_first(each)) {
      flat.push_back(each);
    }
  }
  if (!single.empty()) flat.push_back(bytes(single));
  // Of parts in a row that may all be left out and begin alike, a?a?a?..., there are as many as their cube.
  CompileTimeLimit::check();
  INGOT_CHECK(
      merged_ < kMostMerged,
      InvalidConfig("grammar", "takes too long: its patterns have too many alternatives that begin alike"));
  std::ranges::sort(flat);
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat.front();
  const auto any = [&](auto member) {
    return std::ranges::any_of(flat, [&](ExprId id) { return nodes_[id].*member; });
  };
  return intern({.kind = Kind::either, .nullable = any(&Node::nullable), .boolean = any(&Node::boolean)},
                flat);
}

ExprId Expressions::both(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  for (const ExprId each : parts) {
    const Node node = nodes_[each];
    if (node.kind == Kind::both) {
      const auto inner = list(node);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else if (node.kind == Kind::nothing) {
      return kNothing;
    } else if (!(node.kind == Kind::no && node.a == kNothing)) {
      flat.push_back(each);
    }
  }
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return no(kNothing);
  if (flat.size() == 1) return flat.front();
  const bool nullable = std::ranges::all_of(flat, [&](ExprId id) { return nodes_[id].nullable; });
  if (flat.front() == kEmpty) return nullable ? kEmpty : kNothing;
  return intern({.kind = Kind::both, .nullable = nullable, .boolean = true}, flat);
}

ExprId Expressions::no(ExprId inner) {
  if (nodes_[inner].kind == Kind::no) return nodes_[inner].a;
  return intern({.kind = Kind::no, .nullable = !nodes_[inner].nullable, .boolean = true, .a = inner});
}

ExprId Expressions::repeat(ExprId inner, std::uint32_t least, std::uint32_t most) {
  if (most == 0 || inner == kEmpty) return kEmpty;
  if (inner == kNothing) return least == 0 ? kEmpty : kNothing;
  if (nodes_[inner].nullable) least = 0;
  if (least == 1 && most == 1) return inner;
  if (nodes_[inner].kind == Kind::repeat && least == 0 && most == kMany && nodes_[inner].least <= 1 &&
      nodes_[inner].most == kMany)
    inner = nodes_[inner].a;
  return intern({.kind = Kind::repeat,
                 .nullable = least == 0,
                 .boolean = nodes_[inner].boolean,
                 .a = inner,
                 .least = least,
                 .most = most});
}

ExprId Expressions::derivative(ExprId id, unsigned char byte) {
  const Node& node = nodes_[id];
  if (node.kind == Kind::nothing || node.kind == Kind::empty) return kNothing;
  if (node.kind == Kind::bytes) return sets_[node.a].has(byte) ? kEmpty : kNothing;
  const std::uint64_t key = (std::uint64_t{id} << 8U) | byte;
  if (const auto found = derivatives_.find(key); found != derivatives_.end()) return found->second;
  INGOT_CHECK(depth_ < kMostDepth,
              InvalidConfig("grammar", fmt::format("is too deep: more than {} parts in a row may be left out",
                                                   kMostDepth)));
  const Deeper deeper(depth_);
  const ExprId derived = derive(id, byte);
  derivatives_.emplace(key, derived);
  return derived;
}

ExprId Expressions::derive(ExprId id, unsigned char byte) {
  const Node node = nodes_[id];  // a copy: making expressions moves the others
  switch (node.kind) {
    case Kind::concat: {
      const ExprId first = concat(derivative(node.a, byte), node.b);
      return nodes_[node.a].nullable ? either(first, derivative(node.b, byte)) : first;
    }
    case Kind::either:
    case Kind::both: {
      std::vector<ExprId> parts(list(node).begin(), list(node).end());
      for (ExprId& part : parts) part = derivative(part, byte);
      return node.kind == Kind::either ? either(std::move(parts)) : both(std::move(parts));
    }
    case Kind::no:
      return no(derivative(node.a, byte));
    case Kind::repeat:
      return concat(derivative(node.a, byte), repeat(node.a, node.least == 0 ? 0 : node.least - 1,
                                                     node.most == kMany ? kMany : node.most - 1));
    default:
      return kNothing;
  }
}

ExprId Expressions::counting_to(ExprId id, std::uint32_t most) {
  const Node node = nodes_[id];
  if (node.kind == Kind::nothing || node.kind == Kind::empty || node.kind == Kind::bytes) return id;
  const std::uint64_t key = (std::uint64_t{most} << 32U) | id;
  if (const auto found = counted_.find(key); found != counted_.end()) return found->second;
  ExprId result = id;
  switch (node.kind) {
    case Kind::concat:
      return count_in_sequence(id, most);
    case Kind::either:
    case Kind::both: {
      std::vector<ExprId> parts(list(node).begin(), list(node).end());
      for (ExprId& part : parts) part = counting_to(part, most);
      result = node.kind == Kind::either ? either(std::move(parts)) : both(std::move(parts));
      break;
    }
    case Kind::no:
      result = no(counting_to(node.a, most));
      break;
    default:
      result = repeat(counting_to(node.a, most), std::min(node.least, most + 1),
                      node.most > most ? kMany : node.most);
  }
  counted_.emplace(key, result);
  return result;
}

ExprId Expressions::count_in_sequence(ExprId id, std::uint32_t most) {
  const auto key = [most](ExprId of) { return (std::uint64_t{most} << 32U) | of; };
  std::vector<ExprId> sequence;
  while (nodes_[id].kind == Kind::concat && !counted_.contains(key(id))) {
    sequence.push_back(id);
    id = nodes_[id].b;
  }
  ExprId result = counting_to(id, most);
  for (auto part = sequence.rbegin(); part != sequence.rend(); ++part) {
    result = concat(counting_to(nodes_[*part].a, most), result);
    counted_.emplace(key(*part), result);
  }
  return result;
}

// The sets of bytes that the next byte is compared with.
void Expressions::begin_visits() {
  ++visit_;
  visited_.resize(nodes_.size());
}

bool Expressions::visits_first(ExprId id) { return std::exchange(visited_[id], visit_) != visit_; }

void Expressions::collect_sets(ExprId id, std::vector<std::uint32_t>& sets) {
  while (visits_first(id)) {
    const Node& node = nodes_[id];
    switch (node.kind) {
      case Kind::bytes:
        sets.push_back(node.a);
        return;
      case Kind::either:
      case Kind::both:
        for (const ExprId each : list(node)) collect_sets(each, sets);
        return;
      case Kind::concat:
        collect_sets(node.a, sets);
        if (!nodes_[node.a].nullable) return;
        id = node.b;
        break;
      case Kind::no:
      case Kind::repeat:
        id = node.a;
        break;
      default:
        return;
    }
  }
}

std::array<std::uint8_t, 256> Expressions::classes(ExprId id) {
  std::vector<std::uint32_t> sets;
  begin_visits();
  collect_sets(id, sets);
  std::ranges::sort(sets);
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  std::array<std::uint8_t, 256> of{};
  std::uint32_t count = 1;
  for (const std::uint32_t set : sets) {
    std::array<int, 256> split;  // the new class of the part of a class that is in the set
    split.fill(-1);
    std::array<bool, 256> outside{};
    for (std::uint32_t b = 0; b < 256; ++b) {
      if (!sets_[set].has(static_cast<unsigned char>(b))) outside[of[b]] = true;
    }
    for (std::uint32_t b = 0; b < 256; ++b) {
      if (!sets_[set].has(static_cast<unsigned char>(b)) || !outside[of[b]]) continue;
      if (split[of[b]] < 0) split[of[b]] = static_cast<int>(count++);
      of[b] = static_cast<std::uint8_t>(split[of[b]]);
    }
  }
  return of;
}

}  // namespace ingot::grammar
