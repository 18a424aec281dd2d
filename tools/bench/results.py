"""Benchmark results: bench/results/MACHINE/machine.json and, a day each, bench/results/MACHINE/DATE.json.

A day's file is {"runs": [run, ...]}, one run a line. FIELDS has what a run holds.
"""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "results"
NUMBER = (int, float)
# field: (types, required, what it is)
FIELDS = {
    "group": (str, True, "the table that shows it"),
    "work": (str, True, "what was computed"),
    "command": (str, True, "prints the figure"),
    "commit": (str, False, "of the binary"),
    "unit": (str, True, "of median, spread, limit and the baseline's median"),
    "better": (str, True, "lower or higher"),
    "median": (NUMBER, True, "of the runs"),
    "spread": (list, False, "[least, largest]"),
    "peer": (dict, False, "name, version, median of the program beside it, in the same run"),
    "ratio": (NUMBER, False, "median of the ratios of runs in turn: above 1 Ingot is ahead; else that of the medians"),
    "goal": (NUMBER, False, "for the ratio"),
    "limit": (NUMBER, False, "what the machine allows"),
    "limit_of": (str, False, "what sets the limit"),
    "limit_goal": (NUMBER, False, "the share of the limit to reach, 0.85 for instance"),
    "note": (str, False, "what else decides the figure"),
}
PEER = {"name": str, "version": str, "median": NUMBER}
MACHINE = {"name": str, "hardware": str, "software": str}


def ratio(run):
    """How many times as good as the baseline, or None without one."""
    if "ratio" in run or "peer" not in run:
        return run.get("ratio")
    ours, theirs = run["median"], run["peer"]["median"]
    return ours / theirs if run["better"] == "higher" else theirs / ours


def share(run):
    """The share of the machine's limit that is reached, or None where no limit is known."""
    if "limit" not in run:
        return None
    return run["median"] / run["limit"] if run["better"] == "higher" else run["limit"] / run["median"]


def goals(run):
    """(what, reached, goal) of each goal of a run."""
    reached = ratio(run)
    if "goal" in run and reached:
        yield f"ratio to {run['peer']['name']}", reached, run["goal"]
    if "limit_goal" in run:
        yield f"share of {run['limit_of']}", share(run), run["limit_goal"]


def is_a(value, kinds):
    return isinstance(value, kinds) and not isinstance(value, bool)


def run_errors(run):
    """What is wrong with one run."""
    if not isinstance(run, dict):
        return ["is not an object"]
    errors = [f"{key} is not a field; the fields are {', '.join(FIELDS)}" for key in run if key not in FIELDS]
    errors += [f"{key} is missing: {doc}" for key, (_, required, doc) in FIELDS.items() if required and key not in run]
    errors += [f"{key} has another type: {doc}" for key, (kinds, _, doc) in FIELDS.items()
               if key in run and not is_a(run[key], kinds)]
    if errors:
        return errors
    if run["better"] not in ("lower", "higher"):
        errors.append(f"better is {run['better']!r}; write lower or higher")
    if "spread" in run:
        spread = run["spread"]
        if len(spread) != 2 or not all(is_a(v, NUMBER) for v in spread) or not spread[0] <= run["median"] <= spread[1]:
            errors.append("spread is not [least, largest] around the median")
    if "peer" in run and (set(run["peer"]) != set(PEER) or not all(is_a(run["peer"][k], v) for k, v in PEER.items())):
        errors.append("peer does not have name, version and median alone")
    elif any(v <= 0 for v in (run["median"], run.get("ratio", 1), run.get("limit", 1), run.get("peer", {}).get("median", 1))):
        errors.append("median, ratio, limit and the baseline's median are above 0")
    if ("limit" in run) != ("limit_of" in run) or "limit_goal" in run and "limit" not in run:
        errors.append("limit, limit_of and a limit_goal come together")
    if "goal" in run and "peer" not in run:
        errors.append("goal is for the ratio to a baseline, which is missing")
    return errors


def file_errors(path):
    """What is wrong with one file of results, each with the file's name."""
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        return [f"{path}: is not JSON: {error}"]
    if path.name == "machine.json":
        wrong = not isinstance(data, dict) or set(data) != set(MACHINE) or not all(is_a(data[k], v) for k, v in MACHINE.items())
        return [f"{path}: does not have the strings {', '.join(MACHINE)} alone"] if wrong else []
    if not re.fullmatch(r"\d{4}-\d\d-\d\d\.json", path.name):
        return [f"{path}: is not named by its date (2026-11-27.json)"]
    if not isinstance(data, dict) or list(data) != ["runs"] or not isinstance(data["runs"], list):
        return [f'{path}: is not {{"runs": [...]}}']
    errors = [f"{path}: run {i} ({run.get('work', '?') if isinstance(run, dict) else '?'}): {error}"
              for i, run in enumerate(data["runs"]) for error in run_errors(run)]
    return errors if (path.parent / "machine.json").is_file() else [*errors, f"{path.parent}: has no machine.json"]


def check(root=ROOT):
    """Every error of every file."""
    return [error for path in sorted(root.glob("*/*")) for error in file_errors(path)]


def current(folder):
    """The newest run of each piece of work beside each baseline, oldest file first, each with its "date"."""
    newest = {}
    for path in sorted(folder.glob("????-??-??.json")):
        for run in json.loads(path.read_text())["runs"]:
            newest[run["group"], run["work"], run.get("peer", {}).get("name")] = {**run, "date": path.stem}
    return list(newest.values())


def append(path, runs):
    """Adds runs to a day's file, which is made where it is not there; refuses what check() would."""
    before = json.loads(path.read_text())["runs"] if path.exists() else []
    lines = ",\n".join("  " + json.dumps(run, ensure_ascii=False) for run in [*before, *runs])
    errors = [f"{path}: {run.get('work', '?')}: {error}" for run in runs for error in run_errors(run)]
    if errors:
        raise ValueError("\n".join(errors))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"runs": [\n{lines}\n]}}\n')
