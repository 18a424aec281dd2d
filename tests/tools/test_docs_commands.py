import os
import pathlib
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "docs"))
import commands  # noqa: E402

PROGRAM = """#!/bin/sh
case "$*" in
  --help) printf 'x\\n\\nSubcommands:\\n  make  makes\\n\\nExamples:\\n  ingot make\\n' ;;
  'make --help') printf 'Options:\\n  -o, --output FILE  Where\\n  --json  JSON\\n' ;;
  make*) echo made > out.txt ;;
esac
"""


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.binary = pathlib.Path(self.folder.name) / "ingot"
        self.binary.write_text(PROGRAM)
        self.binary.chmod(self.binary.stat().st_mode | stat.S_IEXEC)

    def page(self, text):
        path = pathlib.Path(self.folder.name) / "page.md"
        path.write_text(text)
        return commands.Page(path)

    def problems(self, text):
        known = commands.Commands(str(self.binary))
        page = self.page(text)
        return page.errors + [problem for _, words in page.commands for problem in known.problems(words)]

    def test_options_that_are_not_there_are_found_wherever_a_command_stands(self):
        for text, found in [("`ingot make --json -o x`\n", 0), ("`ingot make --jsn`\n", 1), ("`ingot mak`\n", 1),
                            ("    ingot make -x\n", 1), ("`A=1 ingot make x --jsn | less --json`\n", 1),
                            ("`mpirun -n 4 ingot make --jsn`\n", 1), ("`ingot make [--json]`\n", 0), ("`import ingot make`\n", 0),
                            ("<!-- needs: a GPU -->\n```sh\ningot make \\\\\n  --jsn  # --json\n```\n", 1)]:
            self.assertEqual(found, len(self.problems(text)), text)

    def test_examples_below_a_list_of_subcommands_are_none(self):
        self.assertEqual([(), ("make",)], [path for path, _ in commands.Commands(str(self.binary)).walk()])

    def test_a_block_says_that_it_runs_or_what_it_needs(self):
        block = "```sh\ningot make\n```\n"
        self.assertEqual(1, len(self.problems(block)))
        self.assertEqual(0, len(self.problems("<!-- needs: a GPU -->\n" + block)))
        self.assertEqual(0, len(self.problems("<!-- runs as written -->\n" + block)))

    def test_blocks_run_as_one_session_with_the_files_of_the_page(self):
        text = ('```yaml title="a.yaml"\nkey: 1\n```\n<!-- runs as written -->\n```sh\ningot make\n```\n'
                "<!-- needs: a GPU -->\n```sh\ningot make; false\n```\n<!-- runs as written -->\n```sh\ncat out.txt a.yaml\n%s```\n")
        _, error, output = commands.run_session(self.page(text % ""), str(self.binary))
        self.assertIsNone(error, output)
        self.assertIn("made\nkey: 1", output)
        _, error, _ = commands.run_session(self.page(text % "false | true\n false\n"), str(self.binary))
        self.assertIn("code 1", error)


if __name__ == "__main__":
    unittest.main()
