#include "ingot/base/config_tree.h"

#include <algorithm>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"

namespace ingot::config_detail {
namespace {

// An alias may be used many times, and one of aliases of aliases grows without bound ("billion laughs"); no
// configuration comes near this.
constexpr int kMaxNodes = 100'000;
constexpr std::size_t kMaxText = std::size_t{2}
                                 << 20;  // as the library's nodes it takes 200 times that at most
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;  // with what its aliases repeat
constexpr int kMaxDepth = 100;                            // an alias inside of what it names has no end

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  void convert_all(const YAML::Node& from, Node& to) {
    convert(from, to, 0);
    for (const YAML::Node& source : merged_)
      for (auto& [yaml, node] : maps_) node->merged = node->merged || yaml.is(source);
  }

 private:
  void convert(const YAML::Node& from, Node& to, int depth) {
    if (++count_ > kMaxNodes) fail(from, fmt::format("is too large: over {} values", kMaxNodes));
    if (depth > kMaxDepth)
      fail(from, fmt::format("nests deeper than {} levels, or an alias stands in what it names", kMaxDepth));
    to.line = from.Mark().line + 1;
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        to.kind = Node::Kind::null;
        return;
      case YAML::NodeType::Scalar:
        to.kind = Node::Kind::scalar;
        charge(from);
        to.text = from.Scalar();
        to.quoted = from.Tag() == "!";
        if (!to.quoted && to.text.empty()) to.kind = Node::Kind::null;
        return;
      case YAML::NodeType::Sequence:
        to.kind = Node::Kind::list;
        for (const YAML::Node& item : from) {
          convert(item, *to.items.emplace_back("", std::make_unique<Node>()).second, depth + 1);
        }
        return;
      case YAML::NodeType::Map:
        maps_.emplace_back(from, &to);
        convert_map(from, to, depth);
        return;
    }
  }

  void convert_map(const YAML::Node& from, Node& to, int depth) {
    to.kind = Node::Kind::map;
    std::unordered_map<std::string, int> lines;  // of keys
    std::vector<YAML::Node> others;
    for (const auto& entry : from) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) fail(key, "a key must be a word");
      charge(key);
      const std::string& name = key.Scalar();
      const int line = key.Mark().line + 1;
      if (const auto [other, added] = lines.emplace(name, line); !added)
        fail(key, fmt::format("'{}' is given twice, here and in line {}", name, other->second));
      if (name == "<<" && key.Tag() != "!") {
        others.push_back(entry.second);
        continue;
      }
      Node& item = *to.items.emplace_back(name, std::make_unique<Node>()).second;
      convert(entry.second, item, depth + 1);
      item.line = line;
    }
    for (const YAML::Node& other : others) merge(other, to, depth);
  }

  void merge(const YAML::Node& other, Node& to, int depth) {
    if (depth > kMaxDepth) fail(other, fmt::format("nests deeper than {} levels", kMaxDepth));
    if (other.IsSequence()) {
      for (const YAML::Node& one : other) merge(one, to, depth + 1);
      return;
    }
    if (!other.IsMap()) fail(other, "<< takes over the keys of a mapping, or of a list of mappings");
    merged_.push_back(other);
    const std::ptrdiff_t known = std::ssize(maps_);
    Node from;
    convert(other, from, depth + 1);
    for (auto& item : from.items) {
      if (to.find(item.first) == nullptr) to.items.push_back(std::move(item));
    }
    maps_.erase(maps_.begin() + known, maps_.end());  // copies, of which some are gone
  }

  void charge(const YAML::Node& scalar) {
    bytes_ += scalar.Scalar().size();
    if (bytes_ > kMaxBytes) fail(scalar, fmt::format("is too large: over {}", human_bytes(kMaxBytes)));
  }

  [[noreturn]] void fail(const YAML::Node& at, const std::string& problem) const {
    throw InvalidConfig(name_, fmt::format("line {}: {}", at.Mark().line + 1, problem));
  }

  const std::string& name_;
  std::vector<std::pair<YAML::Node, Node*>> maps_;  // and what they have become
  std::vector<YAML::Node> merged_;
  int count_ = 0;
  std::size_t bytes_ = 0;
};

YAML::Node load_yaml(const std::string& text, const std::string& name) {
  INGOT_CHECK(text.size() <= kMaxText,
              InvalidConfig(name, fmt::format("is too large: {}, and {} at most can be read",
                                              human_bytes(text.size()), human_bytes(kMaxText))));
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InvalidConfig(name, fmt::format("line {}, column {}: is not valid YAML: {}", error.mark.line + 1,
                                          error.mark.column + 1, printable(error.msg)));
  }
}

}  // namespace

Node* Node::find(std::string_view key) const {
  if (kind != Kind::map) return nullptr;
  const auto it =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
  return it == items.end() ? nullptr : it->second.get();
}

void Document::record(std::string path, std::string value) {
  const auto [at, added] = recorded.emplace(path, effective.size());
  if (added) {
    effective.push_back({std::move(path), std::move(value)});
  } else {
    effective[at->second].value = std::move(value);
  }
}

std::string Document::place(const Node& node) const {
  return node.line > 0 ? fmt::format("{}, line {}", name, node.line) : node.option;
}

void parse_yaml(Document& document, std::string_view text) {
  const YAML::Node yaml = load_yaml(std::string(text), document.name);
  Converter(document.name).convert_all(yaml, document.root);
  Node& root = document.root;
  if (root.kind == Node::Kind::null) root.kind = Node::Kind::map;  // an empty file sets nothing
  INGOT_CHECK(root.kind == Node::Kind::map,
              InvalidConfig(document.name, "expected a mapping of keys to values at the top"));
}

std::unique_ptr<Node> parse_value(std::string_view yaml, const std::string& for_messages,
                                  const std::string& option) {
  auto node = std::make_unique<Node>();
  Converter(for_messages).convert_all(load_yaml(std::string(yaml), for_messages), *node);
  const auto set_place = [&option](auto&& self, Node& n) -> void {
    n.line = 0;
    n.option = option;
    for (auto& item : n.items) self(self, *item.second);
  };
  set_place(set_place, *node);
  return node;
}

std::string quote_if_needed(std::string_view text) {
  YAML::Emitter out;
  out << std::string(text);
  std::string plain = out.c_str();
  // What is written bare must come back as the same word, not as null or as two values.
  const bool special = text == "~" || text == "null" || text == "Null" || text == "NULL";
  if (!special && plain == text) return plain;
  YAML::Emitter quoted;
  quoted << YAML::DoubleQuoted << std::string(text);
  return quoted.c_str();
}

}  // namespace ingot::config_detail
