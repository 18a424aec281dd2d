#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/data/parquet/column.h"

// How columns make up rows: Dremel's levels say where in a nested value each entry stands.
namespace ingot::data::parquet {

struct Node {
  enum class Kind : std::uint8_t { leaf, object, list, map };
  Kind kind = Kind::leaf;
  std::string name = {};
  bool optional = false;
  std::uint32_t defined = 0;        ///< the definition level from which it is not null
  std::uint32_t element_there = 0;  ///< of lists: from which it has an element
  std::uint32_t repeats = 0;        ///< of lists: the repetition level of each further element
  std::vector<Node> children = {};  ///< of a list one, of a map key and value
  std::size_t first_leaf = 0, end_leaf = 0;
};

/// A schema as a tree, and its columns in the file's order.
struct Tree {
  Node root;
  std::vector<Leaf> leaves;
};

/// FormatError of `location` where elements do not make up one tree, or nest too deeply.
Tree build_tree(const std::vector<Element>& schema, const Location& location);

/// The value of a node whose first entries the columns stand at, which then stand behind its last ones.
/// FormatError where the columns do not agree.
nlohmann::ordered_json read_node(const Node& node, std::vector<ColumnReader>& columns);

}  // namespace ingot::data::parquet
