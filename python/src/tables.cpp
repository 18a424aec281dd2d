#include <limits>

#include "bindings.h"
#include <nanobind/ndarray.h>

#include "ingot/data/arrow_stream.h"
#include "ingot/data/csv.h"

namespace ingot::python {
namespace {

using data::CsvTable;
using data::TypedColumn;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> values_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

// NumPy's NaT is the least number. Of a zone with its offsets from UTC.
void add_moments(TypedColumn& column, std::span<const std::int64_t> values, std::int64_t units,
                 nb::handle offsets) {
  column.units = units;
  if (!offsets.is_none()) {
    const auto array = nb::cast<Array<std::int32_t>>(offsets);
    column.offsets.assign(values_of(array).begin(), values_of(array).end());
  }
  for (const std::int64_t value : values) {
    if (value == std::numeric_limits<std::int64_t>::min())
      column.add_missing();
    else
      column.add_whole(value);
  }
}

void add_wholes(TypedColumn& column, std::span<const std::int64_t> values, nb::handle missing) {
  column.wholes.assign(values.begin(), values.end());
  if (missing.is_none()) return;
  const auto array = nb::cast<Array<bool>>(missing);
  column.missing.assign(values_of(array).begin(), values_of(array).end());
}

void add_texts(TypedColumn& column, const nb::list& values) {
  for (const nb::handle value : values)
    column.add_text(value.is_none() ? "" : nb::cast<std::string_view>(value));
}

// A column as forecast.py names it: (name, kind, values, units of moments, what stands beside the values:
// which whole numbers are missing, or the offsets of moments with a zone).
TypedColumn column_of(const nb::tuple& given) {
  const auto kind = nb::cast<std::string>(given[1]);
  TypedColumn column{.name = nb::cast<std::string>(given[0])};
  if (kind == "text") {
    add_texts(column, nb::cast<nb::list>(given[2]));
  } else if (kind == "real") {
    column.kind = TypedColumn::Kind::real;
    const auto array = nb::cast<Array<double>>(given[2]);
    column.reals.assign(values_of(array).begin(), values_of(array).end());
  } else if (kind == "truth") {
    column.kind = TypedColumn::Kind::truth;
    const auto array = nb::cast<Array<bool>>(given[2]);
    column.wholes.assign(values_of(array).begin(), values_of(array).end());
  } else {
    const auto array = nb::cast<Array<std::int64_t>>(given[2]);
    column.kind = kind == "moment" ? TypedColumn::Kind::moment : TypedColumn::Kind::whole;
    if (kind == "moment")
      add_moments(column, values_of(array), nb::cast<std::int64_t>(given[3]), given[4]);
    else
      add_wholes(column, values_of(array), given[4]);
  }
  return column;
}

CsvTable of_columns(const nb::list& given, std::string name) {
  std::vector<TypedColumn> columns;
  columns.reserve(nb::len(given));
  for (const nb::handle column : given) columns.push_back(column_of(nb::cast<nb::tuple>(column)));
  return CsvTable::of_columns(std::move(columns), std::move(name));
}

// Names of a frame's columns of text.
std::vector<std::string> text_columns(const CsvTable& table) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < table.columns(); ++c) {
    if (table.typed(c) == nullptr) names.push_back(table.header()[c]);
  }
  return names;
}

// Of anything that has __arrow_c_stream__.
CsvTable of_arrow(nb::handle frame, const std::string& name, nb::handle offset_at) {
  const nb::object capsule = frame.attr("__arrow_c_stream__")();
  void* stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
  if (stream == nullptr) throw nb::python_error();
  const ReleasedGil release;
  return data::read_arrow_stream(stream, name, [offset_at](const std::string& zone, std::int64_t seconds) {
    const AcquiredGil acquire;
    return nb::cast<std::int64_t>(offset_at(zone, seconds));
  });
}

}  // namespace

void bind_tables(nb::module_& module) {
  nb::class_<CsvTable>(module, "_Table")
      .def_static("load", &CsvTable::load, "path"_a, "encoding"_a, ReleaseGil())
      .def_static("of_columns", of_columns, "columns"_a, "name"_a)
      .def_static("of_arrow", of_arrow, "frame"_a, "name"_a, "offset_at"_a.none())
      .def_prop_ro("text_columns", text_columns);
}

}  // namespace ingot::python
