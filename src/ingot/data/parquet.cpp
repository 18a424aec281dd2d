#include "ingot/data/parquet.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/parallel.h"
#include "ingot/data/parquet/cell.h"
#include "ingot/data/parquet/tree.h"
#include "ingot/data/record.h"

namespace ingot::data::parquet {
namespace {

// A file with its schema understood.
struct ParquetFile {
  ParquetFile(const std::string& path_, std::string_view bytes_)
      : path(path_),
        bytes(bytes_),
        metadata(read_metadata(bytes, {.path = path})),
        tree(build_tree(metadata.schema, {.path = path})),
        budget(bytes.size()) {}

  /// Calls `take` for each row, with all columns at its first entries; false ends the reading.
  void for_each_row(FunctionRef<bool(std::vector<ColumnReader>&)> take) {
    for (const RowGroup& group : metadata.groups) {
      std::vector<ColumnReader> columns;
      columns.reserve(tree.leaves.size());
      for (std::size_t i = 0; i < tree.leaves.size(); ++i)
        columns.emplace_back(bytes, path, tree.leaves[i], group.chunks[i], budget);
      for (std::int64_t row = 0; row < group.rows; ++row) {
        for (const ColumnReader& column : columns) check_begins_row(column);
        if (!take(columns)) return;
      }
      for (const ColumnReader& column : columns) {
        if (column.more()) column.location().fail("has more values than there are rows; the file is damaged");
      }
    }
  }

  static void check_begins_row(const ColumnReader& column) {
    if (column.repetition() != 0)
      column.location().fail("has other rows than the columns beside it; the file is damaged");
  }

  const std::string& path;
  std::string_view bytes;
  Metadata metadata;
  Tree tree;
  Budget budget;
};

bool is_pandas_index(const std::string& name) { return name.starts_with("__index_level_"); }

// The columns of a table. pandas writes its index last; dates come first where people look for them.
std::vector<const Node*> table_columns(const ParquetFile& file) {
  std::vector<const Node*> columns;
  const auto element = [&](const Node* node) -> const Element& {
    return file.tree.leaves[node->first_leaf].element;
  };
  for (const Node& node : file.tree.root.children) {
    const bool counts = is_pandas_index(node.name) && is_numeric(element(&node));
    if (node.kind == Node::Kind::leaf && !counts) columns.push_back(&node);
  }
  if (columns.empty()) Location{.path = file.path}.fail("has no column that is not nested; a table has some");
  const auto dated = std::ranges::find_if(columns, [&](const Node* node) { return is_dated(element(node)); });
  if (dated != columns.end() && !is_dated(element(columns[0])))
    std::rotate(columns.begin(), dated, dated + 1);
  return columns;
}

}  // namespace
}  // namespace ingot::data::parquet

namespace ingot::data {

void for_each_parquet_row(const std::string& path, std::string_view file, TakeRecord take) {
  parquet::ParquetFile in(path, file);
  std::int64_t number = 0;
  in.for_each_row([&](std::vector<parquet::ColumnReader>& columns) {
    const nlohmann::ordered_json record = parquet::read_node(in.tree.root, columns);
    return take(record, {path, fmt::format("row {}", ++number)});
  });
}

CsvTable read_parquet_table(const std::string& path, std::string_view file) {
  constexpr std::size_t kSmall = std::size_t{256} << 20, kMostRatio = 250;
  parquet::ParquetFile in(path, file);
  const std::vector<const parquet::Node*> wanted = parquet::table_columns(in);
  CellTable table{.name = path};
  for (const parquet::Node* node : wanted) {
    table.header.push_back(parquet::is_pandas_index(node->name) ? "index" : node->name);
    table.numeric.push_back(parquet::is_numeric(in.tree.leaves[node->first_leaf].element));
  }
  in.for_each_row([&](std::vector<parquet::ColumnReader>& columns) {
    for (const parquet::Node* node : wanted) {
      parquet::ColumnReader& column = columns[node->first_leaf];
      const bool there = column.definition() == column.leaf().definitions;
      if (there) table.text += parquet::text_of(column.value(), column.leaf().element, column.location());
      table.ends.push_back(table.text.size());
      if (table.text.size() > std::max(kSmall, file.size() * kMostRatio))
        column.location().fail("holds far more text than its file has bytes; the file is damaged");
    }
    for (parquet::ColumnReader& column : columns) {
      do column.advance();
      while (column.repetition() > 0);
    }
    return true;
  });
  return CsvTable::of_cells(std::move(table));
}

std::int64_t parquet_rows(const std::string& path, std::string_view file) {
  return parquet::read_metadata(file, {.path = path}).rows;
}

}  // namespace ingot::data
