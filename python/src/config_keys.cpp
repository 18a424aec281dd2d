// The keys of configurations, from the tables that read them.
#include "bindings.h"

#include "ingot/forecast/fit_keys.h"
#include "ingot/train/language/train_keys.h"

namespace ingot::python {
namespace {

nb::dict as_python(const ConfigSection& section, const ConfigKey& key) {
  nb::dict row;
  row["key"] = key.key;
  row["section"] = section.heading;
  row["aliases"] = key.aliases;
  row["kind"] = key.kind;
  row["default"] = key.default_value;
  row["unit"] = key.unit;
  row["doc"] = key.doc;
  return row;
}

nb::list keys_of(const std::string& configuration) {
  nb::list rows;
  for (const ConfigSection& section :
       configuration == "forecast" ? forecast::fit_reference() : train_reference())
    for (const ConfigKey& key : section.keys) rows.append(as_python(section, key));
  return rows;
}

}  // namespace

void bind_config_keys(nb::module_& module) {
  module.def("_config_keys", keys_of, "configuration"_a, "Of \"train\" or \"forecast\".");
}

}  // namespace ingot::python
