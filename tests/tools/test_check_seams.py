import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_seams  # noqa: E402


class Seams(unittest.TestCase):
    def complaints(self, text):
        return [number for number, _ in check_seams.check(text)]

    def test_what_looks_past_a_weight_is_refused_with_its_line(self):
        self.assertEqual([2], self.complaints("int a;\nif (layer.packed != nullptr) return;\n"))
        self.assertEqual([1], self.complaints("linear(x, gate.weight.dense.value);"))
        self.assertEqual([1], self.complaints("quant::Rounding r;"))
        self.assertEqual([1], self.complaints("if (x.device().is_cpu()) return;"))

    def test_layers_that_know_of_formats_are_asked_about_devices_alone(self):
        check = lambda text: [number for number, _ in check_seams.check(text, check_seams.DEVICE_RULES)]
        self.assertEqual([], check("if (layer.packed != nullptr) return;"))
        self.assertEqual([1], check("if (device.is_cuda()) return;"))

    def test_comments_literals_and_other_words_may_say_it(self):
        self.assertEqual([], self.complaints('// packed\n/* is_cpu()\n packed */ log("packed Rounding"); unpacked(dense);'))

    def test_lines_count_behind_long_comments(self):
        self.assertEqual([3], self.complaints("/* a\n b */\nbool packed;"))


if __name__ == "__main__":
    unittest.main()
