import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "bench"), str(ROOT / "tools" / "docs")]
import benchmarks  # noqa: E402
import record  # noqa: E402
import results  # noqa: E402

RUN = {"group": "Decoding", "work": "GPT-2", "command": "ingot bench decode", "unit": "tokens/s", "better": "higher", "median": 30.0}
PEER = {"name": "llama.cpp", "version": "b1", "median": 20.0}


class BenchResults(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        machine = pathlib.Path(folder.name) / "box"
        machine.mkdir()
        (machine / "machine.json").write_text(json.dumps({"name": "Box", "hardware": "2 cores", "software": "Debian"}))
        return machine

    def test_every_result_of_this_tree_is_valid_and_has_a_page_in_the_menu(self):
        self.assertEqual([], results.check())
        menu = (ROOT / "mkdocs.yml").read_text()
        for name, text in benchmarks.pages():
            self.assertIn(name, menu)
            self.assertIn("| work |", text)

    def test_wrong_runs_are_told(self):
        for change, told in [({"median": "fast"}, "median has another type"), ({"median": True}, "median has another type"),
                             ({"speed": 3}, "speed is not a field"), ({"better": "more"}, "write lower or higher"),
                             ({"spread": [31, 40]}, "spread"), ({"limit": 40}, "limit_of"), ({"goal": 2}, "for the ratio"), ({"median": 0}, "above 0"),
                             ({"peer": {"name": "x", "median": 3}}, "peer does not have")]:
            self.assertIn(told, "".join(results.run_errors({**RUN, **change})), change)
        del (short := dict(RUN))["command"]
        self.assertEqual(["command is missing: prints the figure"], results.run_errors(short))

    def test_wrong_files_are_told(self):
        machine = self.folder()
        for name, text, told in [("today.json", '{"runs": []}', "named by its date"), ("2026-11-27.json", "{", "is not JSON"),
                                 ("2026-11-28.json", "[]", "is not {"), ("2026-11-29.json", '{"runs": [3]}', "is not an object")]:
            (machine / name).write_text(text)
            self.assertIn(told, "".join(results.file_errors(machine / name)))
        self.assertEqual(4, len(results.check(machine.parent)))

    def test_the_page_shows_the_newest_run_its_ratio_and_the_goals_missed(self):
        machine = self.folder()
        results.append(machine / "2026-11-26.json", [{**RUN, "peer": PEER, "goal": 1.7}])
        results.append(machine / "2026-11-27.json", [{**RUN, "median": 33.0, "peer": PEER, "goal": 1.7, "limit": 44, "limit_of": "memory", "limit_goal": 0.85}])
        results.append(machine / "2026-11-27.json", [{**RUN, "work": "BERT", "unit": "ms", "better": "lower", "peer": PEER}])
        (_, text), = benchmarks.pages(machine.parent)
        self.assertIn("33 tokens/s | llama.cpp b1: 20", text)
        self.assertNotIn("2026-11-26", text)
        self.assertIn("| Decoding | GPT-2 | ratio to llama.cpp | 1.65 | 1.7 |", text)
        self.assertIn("| Decoding | GPT-2 | share of memory | 0.75 | 0.85 |", text)
        self.assertIn("75 % of memory (goal 85 %)", text)
        self.assertIn("0.67", text)
        with self.assertRaisesRegex(ValueError, "above 0"):
            results.append(machine / "2026-11-27.json", [{**RUN, "median": -1.0}])

    def test_reports_of_ingot_bench_become_runs(self):
        train = {"shape": "demo", "batch": 4, "sequence": 64, "accumulate": 1, "recompute": "false", "optimizer": "adamw",
                 "dtype": "f32", "step_ms": 50.0, "gflops": 90.0, "matmul_gflops": 100.0, "peak_memory_mib": 80.2,
                 "peers": [{"name": "torch", "version": "2.15", "step_ms": 75.0, "ratio": 1.5, "peak_memory_mib": 1.0}]}
        run, = record.runs_of("train", train, {"command": "c", "note": "alone"})
        self.assertEqual([], results.run_errors(run))
        self.assertEqual((1.5, 45.0, "peak memory 80 MiB; alone"), (run["ratio"], run["limit"], run["note"]))
        decode = {"work": "decode", "model": "dir/m.gguf", "format": "q8_0", "tokens": 64, "batch": 1, "tokens_per_second": 30.0,
                  "limit_tokens_per_second": 40.0, "peer_tokens_per_second": 20.0, "ratio": 1.5}
        self.assertIn("peer does not have", results.run_errors(record.runs_of("decode", decode, {"command": "c"})[0])[0])
        self.assertEqual([], results.run_errors(record.runs_of("decode", decode, {"command": "c"}, "b1")[0]))


if __name__ == "__main__":
    unittest.main()
