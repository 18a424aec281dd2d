import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@unittest.skipUnless(shutil.which("abidiff") and shutil.which("abidw"), "abidiff is not here (abigail-tools)")
class Abi(unittest.TestCase):
    """The headers as they are, and copies in which something is broken on purpose."""

    def checked(self, *changes):
        """(exit status, output) of the check where `changes`, (file, before, after), are made in the headers."""
        with tempfile.TemporaryDirectory() as folder:
            headers = pathlib.Path(folder) / "ingot"
            shutil.copytree(ROOT / "src/ingot/c_api", headers / "c_api", ignore=shutil.ignore_patterns("*.cpp", "inner"))
            shutil.copy(ROOT / "src/ingot/ingot.h", headers)
            for name, before, after in changes:
                path = headers / "c_api" / name
                text = path.read_text(encoding="utf-8")
                self.assertIn(before, text)
                path.write_text(text.replace(before, after, 1), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/check_abi.py", "--headers", folder], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def refused(self, *changes):
        status, output = self.checked(*changes)
        self.assertEqual(1, status, output)
        self.assertIn("the C API is not what it was", output)
        return output

    def test_the_headers_as_they_are_keep_the_abi(self):
        status, output = self.checked()
        self.assertEqual(0, status, output)

    def test_a_function_that_is_gone_is_refused(self):
        gone = ("train.h", "INGOT_API IngotStatus ingot_trainer_close(IngotTrainer* trainer);", "")
        self.assertIn("ingot_trainer_close", self.refused(gone))

    def test_a_field_in_the_middle_of_a_struct_is_refused(self):
        field = ("train.h", "  double epoch;\n", "  int32_t extra;\n  double epoch;\n")
        self.assertIn("IngotTrainStep", self.refused(field))

    def test_a_parameter_of_another_type_is_refused(self):
        parameter = ("train.h", "ingot_trainer_evaluate(IngotTrainer* trainer, double* loss)", "ingot_trainer_evaluate(IngotTrainer* trainer, float* loss)")
        self.assertIn("ingot_trainer_evaluate", self.refused(parameter))

    def test_an_enumerator_of_another_value_is_refused(self):
        output = self.refused(("error.h", "INGOT_BUSY = 4", "INGOT_BUSY = 44"))
        self.assertIn("INGOT_BUSY was 4 and is 44", output)

    def test_a_description_that_is_missing_names_what_writes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("tools/check_abi.py", "CMakeLists.txt", "cmake/c_api.map", *(f"tests/c_api/abi/{path.name}" for path in (ROOT / "tests/c_api/abi").glob("*.abi"))):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)
            done = subprocess.run([sys.executable, "-B", root / "tools/check_abi.py", "--headers", ROOT / "src"], capture_output=True, text=True)
            self.assertEqual(1, done.returncode, done.stderr)
            self.assertRegex(done.stdout, r"^tests/c_api/abi/[\d.]+constants: is missing; write it with tools/check_abi.py --update\n$")


if __name__ == "__main__":
    unittest.main()
