import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402

TABLE = """
# ingot_layer(ghost) is only a comment
ingot_layer(base LIBS fmt::fmt)
ingot_layer(core DEPENDS base)
ingot_layer(kernels DEPENDS core
  LIBS base_is_a_library_here)
ingot_layer(kernels/cpu DEPENDS kernels)
ingot_layer(ops DEPENDS kernels)
ingot_layer(runtime DEPENDS kernels/cpu)
"""


class CheckLayers(unittest.TestCase):
    def complaints(self, files, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            base = pathlib.Path(folder) / "src" / "ingot"
            base.mkdir(parents=True)
            (base / "CMakeLists.txt").write_text(table)
            for name, text in files.items():
                path = base / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.check(folder)

    def test_own_and_lower_layers_are_allowed_also_through_others(self):
        self.assertEqual([], self.complaints({
            "ops/a.cpp": '#include "ingot/ops/a.h"\n#include "ingot/base/error.h"\n#include <vector>\n',
            "kernels/cpu/a.cpp": '#include "ingot/kernels/a.h"\n#include "ingot/kernels/cpu/b.h"\n'}))

    def test_an_upward_include_is_named_with_file_line_and_what_is_allowed(self):
        found = self.complaints({"core/a.h": '#pragma once\n#  include "ingot/ops/a.h"\n'})
        self.assertEqual(["src/ingot/core/a.h:2: core includes ingot/ops/a.h of layer ops; allowed: base, core"], found)

    def test_a_leaf_is_closed_to_all_but_itself_and_the_layer_that_registers_it(self):
        include = '#include "ingot/kernels/cpu/b.h"\n'
        found = self.complaints({"ops/a.cpp": include, "kernels/a.cpp": include, "runtime/a.cpp": include})
        self.assertEqual(2, len(found))
        for complaint in found:
            self.assertIn("only kernels/cpu, runtime may", complaint)

    def test_a_leaf_stays_closed_to_who_depends_on_it(self):
        table = TABLE + "ingot_layer(cli DEPENDS runtime kernels/cpu)\n"
        self.assertEqual(1, len(self.complaints({"cli/a.cpp": '#include "ingot/kernels/cpu/b.h"\n'}, table)))

    def test_own_headers_are_written_from_the_root_and_with_quotes(self):
        found = self.complaints({"base/a.h": "", "base/a.cpp": '#include "a.h"\n#include <ingot/base/a.h>\n'})
        self.assertEqual(2, len(found))
        self.assertIn('write it from the root', found[0])
        self.assertIn('with quotes', found[1])

    def test_a_file_outside_every_layer_is_found(self):
        found = self.complaints({"stray/a.cpp": "", "base/b.cpp": '#include "ingot/stray/a.h"\n'})
        self.assertEqual(2, len(found))
        self.assertTrue(all("in no layer" in complaint for complaint in found))

    def test_faults_of_the_table_itself_are_reported(self):
        for table, fault in [("ingot_layer(a DEPENDS b)", "not declared"),
                             ("ingot_layer(a)\ningot_layer(a)", "declared twice"),
                             ("ingot_layer(a DEPENDS b)\ningot_layer(b DEPENDS a)", "in a circle: a -> b -> a")]:
            found = self.complaints({}, table)
            self.assertEqual(1, len(found), table)
            self.assertIn(fault, found[0])

    def test_the_table_of_this_repository_parses_and_holds(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        table = check_layers.parse_table((root / "src/ingot/CMakeLists.txt").read_text())
        self.assertIn("base", table)
        self.assertEqual([], check_layers.check(root))


if __name__ == "__main__":
    unittest.main()
