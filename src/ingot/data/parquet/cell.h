#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ingot/data/parquet/values.h"

// What values are elsewhere.
namespace ingot::data::parquet {

/// As a member of a record: numbers, booleans and strings; dates and times as ISO 8601 has them, decimals and
/// UUIDs as text; bytes that are not text as JSON's bytes, NaN as null.
nlohmann::ordered_json json_of(const Value& value, const Element& element, const Location& location);

/// As a cell of a table: text that reads back as the same value. Empty for NaN.
std::string text_of(const Value& value, const Element& element, const Location& location);

/// Whether cells are numbers or truths, written with a point whatever the column looks like.
bool is_numeric(const Element& element);
/// Whether cells are dates.
bool is_dated(const Element& element);

}  // namespace ingot::data::parquet
