import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "docs" / "catalogue.py"


def run(*arguments):
    return subprocess.run([sys.executable, "-B", TOOL, *map(str, arguments)], capture_output=True, text=True)


class Catalogue(unittest.TestCase):
    def test_the_pages_of_this_tree_are_up_to_date(self):
        result = run("--check")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_wants_every_variable_and_every_error_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for below in ("src/ingot/c_api", "python/ingot", "docs"):
                (root / below).mkdir(parents=True)
            environment, errors = root / "docs/environment.md", root / "docs/errors.md"
            environment.write_text("<!-- variables: begin -->\n<!-- variables: end -->\n")
            errors.write_text("<!-- errors: begin -->\n<!-- errors: end -->\nx\n")
            (root / "src/ingot/c_api/error.h").write_text("enum {\n  INGOT_OK = 0,\n  INGOT_LATE = 1  ///< after the end\n};\n")
            (root / "python/ingot/errors.py").write_text(
                'class Error(Exception):\n    """All."""\n\n\nclass Late(Error, ValueError):\n    """``by`` how much."""\n\n    by: int\n\n\n'
                '_CLASSES: dict = {"late": Late}\n')
            header = root / "src/ingot/errors.h"
            header.write_text('class Late : public Error {\n public:\n  std::string_view kind() const noexcept override { return "late"; }\n};\n')
            source = root / "src/ingot/a.cpp"
            source.write_text('bool on() { return env_flag("SPEED").value_or(true); }\n')
            self.assertIn("a.cpp: reads INGOT_SPEED", run("--root", root, "--check").stdout)
            source.write_text("// Environment: INGOT_SPEED=0 | slow, but\n// surely\n" + source.read_text())
            self.assertIn("out of date", run("--root", root, "--check").stdout)
            result = run("--root", root)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("| `INGOT_SPEED=0` | slow, but surely |\n", environment.read_text())
            self.assertIn("| `late` | `Late` | `Late` (`ValueError`) | `INGOT_LATE` | by | `by` how much |\n", errors.read_text())
            self.assertTrue(errors.read_text().endswith("<!-- errors: end -->\nx\n"))
            self.assertEqual(run("--root", root, "--check").returncode, 0)
            header.write_text(header.read_text() + header.read_text().replace("Late", "Lost").replace("late", "lost"))
            self.assertIn("Lost has neither a comment nor a docstring", run("--root", root).stdout)


if __name__ == "__main__":
    unittest.main()
