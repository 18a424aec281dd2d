#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ingot::config_detail {

/// One value of a configuration, and what has been asked of it. Addresses are stable.
struct Node {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;     // a scalar's
  bool quoted = false;  // a scalar that was written in quotes, so "null" and "true" are words
  int line = 0;         // from 1; 0: not from the file but from `option`
  std::string option = "--set";
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> items;  // of a map; of a list, with empty names

  bool read = false;
  bool merged = false;  // its keys were taken over by another mapping (<<), so it need not be a key
  std::vector<std::string> asked;  // keys that were looked for here: what an unknown key may have meant

  Node* find(std::string_view key) const;
};

/// One value as it took effect: given, or the default.
struct Effective {
  std::string path;
  std::string value;  // as YAML, on one line
};

struct Document {
  std::string name;
  Node root;
  Node empty;  // what an absent section reads from (its `asked` is never looked at)
  std::vector<std::unique_ptr<Node>> absent;
  std::vector<Effective> effective;
  std::unordered_map<std::string, std::size_t> recorded;  // path to index in `effective`

  void record(std::string path, std::string value);
  std::string place(const Node& node) const;
};

/// Fills `root` from YAML text. A mapping takes over the keys of what `<<` names, a mapping or a list of
/// such, but for those that it has, or that an earlier one of the list has. InvalidConfig for what is no
/// YAML, for a key given twice, for a document that is not a mapping, and for one that grows out of all
/// proportion through aliases.
void parse_yaml(Document& document, std::string_view text);
/// `option`: where it and all below it come from.
std::unique_ptr<Node> parse_value(std::string_view yaml, const std::string& for_messages,
                                  const std::string& option);

/// A scalar as YAML that reads back as the same text.
std::string quote_if_needed(std::string_view text);

}  // namespace ingot::config_detail
