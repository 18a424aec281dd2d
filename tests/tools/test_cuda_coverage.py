import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "cuda_coverage.py"


def run(*arguments):
    return subprocess.run([sys.executable, "-B", TOOL, *map(str, arguments)], capture_output=True, text=True)


class CudaCoverage(unittest.TestCase):
    def test_the_page_of_this_tree_is_up_to_date(self):
        result = run("--check")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_wants_every_kernel_and_a_true_page(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/ingot/kernels/cuda").mkdir(parents=True)
            (root / "docs").mkdir()
            (root / "src/ingot/kernels/a.h").write_text('inline Kernel<AArgs> a("a");\ninline Kernel<BArgs> b("b");\n')
            (root / "src/ingot/kernels/cuda/a.cu").write_text('  a.add(DeviceType::cuda,\n        {"tiled", 1});\n')
            page = root / "docs/cuda-backend.md"
            page.write_text("x\n<!-- coverage: begin -->\n<!-- coverage: end -->\ny\n")
            self.assertEqual(run("--root", root, "--check").returncode, 1)
            self.assertEqual(run("--root", root).returncode, 0)
            self.assertIn("1 of 2 kernels.\n", page.read_text())
            self.assertIn("| `a` | tiled |\n| `b` | **missing** |\n", page.read_text())
            self.assertTrue(page.read_text().endswith("<!-- coverage: end -->\ny\n"))
            self.assertIn("without a CUDA implementation: b;", run("--root", root, "--check").stdout)
            (root / "src/ingot/kernels/cuda/b.cu").write_text('  b.add(DeviceType::cuda, {"cuda", 1});\n')
            self.assertIn("out of date", run("--root", root, "--check").stdout)
            self.assertEqual(run("--root", root).returncode, 0)
            self.assertEqual(run("--root", root, "--check").returncode, 0)
            (root / "src/ingot/kernels/c.h").write_text('inline Kernel<CArgs> c("c");  // CPU only: a layout\n')
            self.assertEqual(run("--root", root).returncode, 0)
            self.assertIn("2 of 2 kernels.\n", page.read_text())
            self.assertIn("| `c` | CPU only: a layout |\n", page.read_text())


if __name__ == "__main__":
    unittest.main()
