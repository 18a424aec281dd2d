import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import tidy  # noqa: E402


class Units(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.build = self.root / "build"
        self.batch = self.build / "batches" / "ingot_a" / "0.cpp"
        self.write("src/ingot/a/one.cpp", '#include "ingot/a/one.h"\n')
        self.write("src/ingot/a/two.cpp", "#include <vector>\n")
        self.write("src/ingot/a/one.h", '#pragma once\n  #  include "ingot/a/deep.h"\n')
        self.write("src/ingot/a/deep.h", '#include <made.h>\n#include "ingot/a/one.h"\n')
        self.write("build/made/made.h", "int made;\n")
        self.write("src/ingot/a/alone.cpp", "")
        self.write("build/batches/ingot_a/0.cpp", '#include "ingot/a/one.cpp"\n#include "ingot/a/two.cpp"\n')
        flags = f"env X=1 /usr/bin/ccache /usr/bin/c++ -I{self.root}/src -isystem {self.build}/made -O2 -o a.o -c"
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.build), "command": f"{flags} {path}", "file": str(path)}
             for path in (self.batch, self.root / "src/ingot/a/alone.cpp")]))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def keys(self):
        headers, hasher = tidy.Headers(self.root, self.build), tidy.Hasher("")
        return {source.name: hasher.unit(words, headers.of(source, tidy.include_folders(words)), self.root)
                for source, words in tidy.units(self.build)}

    def changed(self, name, text):
        before = self.keys()
        self.write(name, text)
        return sorted(file for file, key in self.keys().items() if before[file] != key)

    def test_a_batch_is_taken_apart_and_each_file_gets_its_command(self):
        units = {source.name: words for source, words in tidy.units(self.build)}
        self.assertEqual(["alone.cpp", "one.cpp", "two.cpp"], sorted(units))
        self.assertEqual(str(self.root / "src/ingot/a/two.cpp"), units["two.cpp"][-1])

    def test_a_header_behind_a_header_changes_only_those_who_include_it(self):
        self.assertEqual(["one.cpp"], self.changed("src/ingot/a/deep.h", "int deep;\n"))

    def test_a_generated_header_counts(self):
        self.assertEqual(["one.cpp"], self.changed("build/made/made.h", "int made_anew;\n"))

    def test_a_neighbour_of_the_batch_does_not_count(self):
        self.assertEqual(["two.cpp"], self.changed("src/ingot/a/two.cpp", "int two;\n"))

    def test_another_checkout_has_the_same_keys(self):
        first = self.keys()
        self.setUp()
        self.assertEqual(first, self.keys())

    def test_what_passed_is_known_to_the_next_run_and_the_oldest_are_dropped(self):
        with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict("os.environ", XDG_CACHE_HOME=cache):
            passed = tidy.Passed(forget=False)
            for key in ("a", "b", "c"):
                passed.add(key)
            self.assertIn("b", tidy.Passed(forget=False))
            self.assertNotIn("b", tidy.Passed(forget=True))
            with unittest.mock.patch.object(tidy.Passed, "kMost", 2):
                passed.trim()
            self.assertEqual(2, len(tidy.Passed(forget=False).known))

    def test_a_syntax_check_is_the_command_without_its_output(self):
        words = ["env", "X=1", "/usr/bin/ccache", "/usr/bin/c++", "-O2", "-MD", "-MF", "a.d", "-o", "a.o", "-c", "a.cpp"]
        self.assertEqual(["/usr/bin/c++", "-O2", "a.cpp", "-fsyntax-only"], tidy.syntax_check(words))


class Touched(unittest.TestCase):
    INCLUDES = {"a/one.cpp": {"a/one.cpp", "a/one.h", "core.h"},
                "a/two.cpp": {"a/two.cpp", "core.h"},
                "b/core.cpp": {"b/core.cpp", "b/core.h", "core.h", "deep.h"}}

    def touched(self, *changed):
        return sorted(tidy.touched(set(changed), self.INCLUDES))

    def test_a_changed_source_is_looked_at_and_its_neighbours_are_not(self):
        self.assertEqual(["a/two.cpp"], self.touched("a/two.cpp", "README.md"))

    def test_a_changed_header_is_seen_by_one_source(self):
        self.assertEqual(["a/two.cpp"], self.touched("core.h"))
        self.assertEqual(["b/core.cpp"], self.touched("b/core.h", "deep.h", "core.h"))

    def test_a_changed_header_that_a_changed_source_includes_asks_for_no_other(self):
        self.assertEqual(["a/one.cpp"], self.touched("a/one.cpp", "core.h", "a/one.h"))


if __name__ == "__main__":
    unittest.main()
