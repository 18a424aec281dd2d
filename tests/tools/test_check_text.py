import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_headers  # noqa: E402
import check_text  # noqa: E402


class CheckText(unittest.TestCase):
    def check(self, text, name="a.md"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / name).write_text(text)
            return check_text.check([root / name], root)

    def test_paths_of_one_machine_are_errors(self):
        for path in ["/" + "root/x", "see /" + "home/ann/model", '"/' + 'Users/ann/x"']:
            errors, _ = self.check(f"first\n{path}\n")
            self.assertEqual(1, len(errors), path)
            self.assertTrue(errors[0].startswith("a.md:2:"))

    def test_relative_and_system_paths_are_not(self):
        errors, _ = self.check("src/root/x, ~/home/x, /usr/share/x, $PREFIX/root/y, ../home/ann, https://a.b/home/ann/x\n")
        self.assertEqual([], errors)

    def test_links_and_mentions_lead_to_pages_that_are_there(self):
        for text, found in [("[a](a.md) [b](a.md#part) [c](https://x.y/z.md) [d](#here)", 0), ("[a](b.md)", 1),
                            ("see " + "docs/" + "gone.md", 1), ("x/docs/" + "gone.md", 0)]:
            errors, _ = self.check(text + "\n")
            self.assertEqual(found, len(errors), text)

    def test_a_conflict_left_behind_is_an_error(self):
        errors, _ = self.check("<" * 7 + " HEAD\nfine\n")
        self.assertEqual(1, len(errors))

    def test_an_example_that_is_not_its_file_any_more_is_an_error(self):
        quoted = "words\n<!-- example: %s -->\n```md\nold\n```\n"
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "same").write_text("old\n")
            (root / "other").write_text("new\n")
            for name, found in [("same", 0), ("other", 1), ("gone", 1)]:
                (root / "a.md").write_text(quoted % name)
                errors, _ = check_text.check([root / "a.md"], root)
                self.assertEqual(found, len(errors), name)
            self.assertTrue(errors[0].startswith("a.md:2:"))

    def test_private_words_are_errors_in_pages_strings_and_comments(self):
        for text, name, found in [("on a card\n", "a.md", 1), ("on a GPU; a model card\n", "a.md", 0), ("`card`\n", "a.md", 0),
                                  ('f("the likeliest");  // card\n', "a.cpp", 2), ("int card = 1;\n", "a.cpp", 0),
                                  ("/// A matrix product.\n", "a.h", 1), ("f('\"'); // a card\n", "a.cu", 1), ('R"(x // a card)";\n', "a.cpp", 0),
                                  ('"""On a card."""\ncard = 1  # a card\n', "a.py", 2), ("# a card\nset(card 1)\n", "a.cmake", 1),
                                  ("quantised, mended\n", "a.md", 2), ("x is no directory\n", "a.md", 1), ("it is no multiple, and no longer\n", "a.md", 1),
                                  ("there is no directory\n", "a.md", 0)]:
            errors, _ = self.check(text, name)
            self.assertEqual(found, len(errors), text)

    def test_words_with_a_private_sense_are_errors_where_a_phrase_shows_it(self):
        for phrase in ["the gradients of its operands", "several texts at once", "the place of a token", "turns the heads", "the pairs that turn",
                       "packs of four values", "a team of threads", "the kernel's form", "stored as halves", "it is made again", "runs it once more",
                       "captured steps", "these figures", "tensors one behind another", "rounds its input", "tiles of weights", "a backend's leaf",
                       "the peer of this program", "the original program", "rows some at a time", "seconds until the first token",
                       "passes over the data", "a schedule that falls", "takes what is there already"]:
            errors, _ = self.check(phrase + "\n")
            self.assertEqual(1, len(errors), phrase)
            self.assertEqual(1, len(self.check(f'say("{phrase}");\n', "a.cpp")[0]), phrase)
            self.assertEqual([], self.check(f"// {phrase}\n", "a.cpp")[0], phrase)  # comments are left to judgement
        for phrase in ["changed in place", "the mean place of a player", "a player's turn", "the leaves of a graph", "a forward pass", "dot products",
                       "the original length of the context", "the peer closed the connection", "a PEM form", "runs side by side"]:
            self.assertEqual([], self.check(phrase + "\n")[0], phrase)

    def test_strings_of_scripts_and_all_of_shell_scripts_are_read_too(self):
        for text, name, found in [("raise TypeError(f'{x} is no table')\n", "a.py", 1), ('x = "it is"  # no "card"\n', "a.py", 1), ('set("card")\n', "a.cmake", 1),
                                  ("say card\n", "a.sh", 1), ("card=1\n", "dev", 1)]:
            errors, _ = self.check(text, name)
            self.assertEqual(found, len(errors), text)

    def test_long_sentences_of_pages_are_errors(self):
        long = " ".join(["word"] * 26)
        for text, found in [(f"{long}.", 1), (f"{long[:40]}. W{long[40:]}.", 0), (f"{long[:60]}: {long[60:]}.", 0), (f"| {long} |", 1),
                            (f"```\n{long}\n```", 0), ("a, b, c, d, " + long, 0)]:
            self.assertEqual(found, len(list(check_text.long_sentences(text + "\n"))), text)

    def test_a_page_begins_with_what_it_is_for_and_a_command(self):
        good = "# Title\n\nDoes something.\n\n```sh\nx\n```\n\n## Part\n"
        self.assertIsNone(check_text.opening_problem(good))
        for text in [good.replace("# Title", "Title"), good.replace("Does something.\n\n", ""), good.replace("```", "")]:
            self.assertIsNotNone(check_text.opening_problem(text), text)

    def test_a_long_source_only_warns(self):
        errors, warnings = self.check("\n" * 700, "a.cpp")
        self.assertEqual(([], 1), (errors, len(warnings)))


class CheckHeaders(unittest.TestCase):
    def test_a_heavy_library_is_found_in_a_header_and_left_alone_in_a_source(self):
        with tempfile.TemporaryDirectory() as folder:
            base = pathlib.Path(folder) / "src" / "ingot" / "base"
            base.mkdir(parents=True)
            (base / "a.h").write_text("#pragma once\n#include <fmt/format.h>\n#include <string>\n")
            (base / "a-inl.h").write_text("#include <hwy/highway.h>\n")
            (base / "a.cpp").write_text("#include <fmt/format.h>\n")
            found = check_headers.heavy_includes(pathlib.Path(folder))
            self.assertEqual(1, len(found))
            self.assertTrue(found[0].startswith("src/ingot/base/a.h:2:"))

    def test_the_budget_counts_what_the_compiler_sees(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            core = root / "src" / "ingot" / "core"
            core.mkdir(parents=True)
            (core / "small.h").write_text("int a();\n\n// a comment\nint b();\n")
            (core / "view.h").write_text("int x();\n" * 26_000)
            self.assertEqual(2, check_headers.preprocessed_lines(root, core / "small.h"))
            found = check_headers.over_budget(root)
            self.assertEqual(1, len(found))
            self.assertIn("view.h:1: preprocesses to", found[0])


if __name__ == "__main__":
    unittest.main()
