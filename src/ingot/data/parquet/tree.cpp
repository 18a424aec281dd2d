#include "ingot/data/parquet/tree.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/data/parquet/cell.h"

namespace ingot::data::parquet {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;

class Builder {
 public:
  Builder(const std::vector<Element>& schema, const Location& location)
      : schema_(schema), location_(location) {}

  Tree build() {
    Tree tree;
    leaves_ = &tree.leaves;
    at_ = 1;
    tree.root.kind = Node::Kind::object;
    add_children(tree.root, schema_[0].children, {}, 0, 0, 1);
    if (at_ != schema_.size()) fail();
    return tree;
  }

 private:
  [[noreturn]] void fail() const { location_.fail("has a schema that is not one tree; the file is damaged"); }

  const Element& take() {
    if (at_ >= schema_.size()) fail();
    return schema_[at_++];
  }

  void add_children(Node& node, std::int32_t count, const std::string& path, std::uint32_t defined,
                    std::uint32_t repeated, int depth) {
    node.first_leaf = leaves_->size();
    for (std::int32_t i = 0; i < count; ++i) node.children.push_back(read(path, defined, repeated, depth));
    node.end_leaf = leaves_->size();
    if (node.first_leaf == node.end_leaf)
      location_.fail("has a group without columns in its schema; the file is damaged");
  }

  // `defined` and `repeated`: the levels of what is around it.
  Node read(const std::string& path, std::uint32_t defined, std::uint32_t repeated, int depth) {
    if (depth > kDeepest) location_.fail("nests too deeply in its schema");
    const Element& element = take();
    const std::string here = path.empty() ? element.name : path + '.' + element.name;
    if (!element.repeated) return value(element, here, defined, repeated, depth);
    // Repeated without a list around it: a list that is never null.
    Node list{.kind = Node::Kind::list, .name = element.name, .defined = defined};
    add_element(list, element, here, defined, repeated, depth);
    return list;
  }

  void add_element(Node& list, const Element& element, const std::string& path, std::uint32_t defined,
                   std::uint32_t repeated, int depth) {
    list.element_there = defined + 1;
    list.repeats = repeated + 1;
    list.children.push_back(value(element, path, defined + 1, repeated + 1, depth + 1));
    list.first_leaf = list.children[0].first_leaf;
    list.end_leaf = list.children[0].end_leaf;
  }

  Node value(const Element& element, const std::string& path, std::uint32_t defined, std::uint32_t repeated,
             int depth) {
    Node node{.name = element.name, .optional = element.optional};
    node.defined = defined + (element.optional ? 1 : 0);
    if (element.physical) {
      node.first_leaf = leaves_->size();
      node.end_leaf = node.first_leaf + 1;
      leaves_->push_back({element, path, node.defined, repeated});
      return node;
    }
    const bool annotated = element.meaning == Meaning::list || element.meaning == Meaning::map;
    if (annotated && element.children == 1 && at_ < schema_.size() && schema_[at_].repeated) {
      add_repeated(node, element, path, repeated, depth);
      return node;
    }
    node.kind = Node::Kind::object;
    add_children(node, element.children, path, node.defined, repeated, depth + 1);
    return node;
  }

  // A list or map of three levels. Older writers leave the middle one out: then what repeats is the element.
  void add_repeated(Node& node, const Element& element, const std::string& path, std::uint32_t repeated,
                    int depth) {
    const Element& middle = take();
    const std::string inner = path + '.' + middle.name;
    node.kind = Node::Kind::list;
    const bool is_map = element.meaning == Meaning::map && !middle.physical && middle.children == 2;
    const bool wrapped = !middle.physical && middle.children == 1 && middle.name != "array" &&
                         middle.name != element.name + "_tuple" && middle.meaning == Meaning::plain;
    if (is_map || wrapped) {
      node.element_there = node.defined + 1;
      node.repeats = repeated + 1;
      if (is_map) node.kind = Node::Kind::map;
      return add_children(node, middle.children, inner, node.defined + 1, repeated + 1, depth + 1);
    }
    add_element(node, middle, inner, node.defined, repeated, depth);
  }

  const std::vector<Element>& schema_;
  const Location& location_;
  std::vector<Leaf>* leaves_ = nullptr;
  std::size_t at_ = 0;
};

[[noreturn]] void fail_apart(const ColumnReader& column) {
  column.location().fail("does not agree with the columns beside it on what is null; the file is damaged");
}

// Passes over a null or an empty list, which no column has a value of.
void skip(const Node& node, std::uint32_t there, std::vector<ColumnReader>& columns) {
  for (std::size_t i = node.first_leaf; i < node.end_leaf; ++i) {
    if (columns[i].definition() >= there) fail_apart(columns[i]);
    columns[i].advance();
  }
}

// Whether another element begins here, on which all columns have to agree.
bool repeats(const Node& node, const std::vector<ColumnReader>& columns) {
  const bool again = columns[node.first_leaf].repetition() == node.repeats;
  for (std::size_t i = node.first_leaf + 1; i < node.end_leaf; ++i) {
    if ((columns[i].repetition() == node.repeats) != again)
      columns[i].location().fail(
          "has lists of other lengths than the columns beside it; the file is damaged");
  }
  return again;
}

void add_element(const Node& node, std::vector<ColumnReader>& columns, Json& into) {
  if (node.kind == Node::Kind::list) {
    into.push_back(read_node(node.children[0], columns));
    return;
  }
  Json key = read_node(node.children[0], columns), value = read_node(node.children[1], columns);
  into[key.is_string() ? key.get<std::string>() : key.dump()] = std::move(value);
}

}  // namespace

Tree build_tree(const std::vector<Element>& schema, const Location& location) {
  return Builder(schema, location).build();
}

Json read_node(const Node& node, std::vector<ColumnReader>& columns) {
  ColumnReader& first = columns[node.first_leaf];
  if (node.optional && first.definition() < node.defined) return skip(node, node.defined, columns), Json();
  switch (node.kind) {
    case Node::Kind::leaf: {
      if (first.definition() < first.leaf().definitions) fail_apart(first);
      Json value = json_of(first.value(), first.leaf().element, first.location());
      first.advance();
      return value;
    }
    case Node::Kind::object: {
      Json object = Json::object();
      for (const Node& child : node.children) object[child.name] = read_node(child, columns);
      return object;
    }
    default: {
      Json list = node.kind == Node::Kind::map ? Json::object() : Json::array();
      if (first.definition() < node.element_there) return skip(node, node.element_there, columns), list;
      do add_element(node, columns, list);
      while (repeats(node, columns));
      return list;
    }
  }
}

}  // namespace ingot::data::parquet
