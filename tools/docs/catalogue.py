#!/usr/bin/env python3
"""Writes the tables of docs/environment.md and docs/errors.md from the sources, or (--check) fails where they are out of date.

Variables: beside what reads one, a source says `// Environment: NAME, OTHER=1 | what it does`; every name in a file that reads the environment has to be in such a comment, or in IGNORED. Errors: the classes below ingot::Error that have a kind() of their own, with
the status of the C API and the exception of Python that have the same kind.
"""
import argparse
import ast
import pathlib
import re
import sys

MARK = re.compile(r"^ *// Environment: (.+(?:\n *// (?!Environment:).+)*)", re.MULTILINE)
READS = re.compile(r"\b(?:getenv|first_variable|set_or_variable|env_setting|env_flag|env_int)\(")
PREFIXED = re.compile(r'\benv_(?:setting|flag|int)\("(\w+)"')
NAME = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"|getenv\("(\w+)"')
IGNORED = {  # of the system, or between processes of ingot
    "HOME", "PATH", "TERM", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "INGOT_WAITING_IS_BOUND", "INGOT_TUNE_WORKER",
    # further variables of the launchers and profilers that the page names
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
    "PMIX_RANK", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
    "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID",
}
# Where a variable is explained: the first of these that begins its file's path.
SECTIONS = [("kernels/cuda", "NVIDIA GPUs"), ("hub", "Downloads"), ("train/reporters", "Trackers"), ("base/worker_pool", "Threads and processes"),
            ("cli/thread_waiting", "Threads and processes"), ("tune", "Threads and processes"), ("", "Programs")]
ORDER = ["Programs", "Threads and processes", "NVIDIA GPUs", "Downloads", "Trackers"]
CLASS = re.compile(r"((?:^ *///[^\n]*\n)*)^class (\w+) : public [\w:]+ \{\n((?:(?!\};)[^\n]*\n)*)", re.MULTILINE)
KIND = re.compile(r'kind\(\) const noexcept override \{ return "(\w+)"; \}')
FIELDS = re.compile(r"^  (?:std::[\w:<>]+|int|long) ([\w, ]+);", re.MULTILINE)
# Never seen by a user as it is: another error, or an answer of the server, replaces it.
INTERNAL = {"api_error", "interrupted", "reward_failure", "step_refused"}


def sources(root, *suffixes):
    return sorted(path for path in (root / "src" / "ingot").rglob("*") if path.suffix in suffixes)


def variables(root):
    """({section: [(names, meaning)]}, [what is wrong])."""
    found, problems, marked, read_by = {section: [] for section in ORDER}, [], set(), {}
    for path in sources(root, ".h", ".cpp", ".cu"):
        text = path.read_text()
        shown = path.relative_to(root / "src" / "ingot").as_posix()
        for mark in MARK.findall(text):
            names, bar, meaning = re.sub(r"\s*\n *// ", " ", mark).partition(" | ")
            if not bar:
                problems.append(f"{shown}: '// Environment: {names}' has no ' | ' before what it does")
                continue
            section = next(title for prefix, title in SECTIONS if shown.startswith(prefix))
            found[section].append((names.split(", "), meaning.strip()))
            marked.update(re.match(r"\w+", name).group() for name in names.split(", "))
            marked.update(re.findall(r"`([A-Z]\w+)(?:=\w+)?`", meaning))
        read = {"INGOT_" + name for name in PREFIXED.findall(text)}
        short = {name.removeprefix("INGOT_") for name in read}
        if READS.search(text):
            read.update(name for pair in NAME.findall(text) if (name := pair[0] or pair[1]) not in short)
        read_by |= {name: shown for name in read}
    problems += [f"{read_by[name]}: reads {name}, and no '// Environment: {name} | ...' says what it does"
                 for name in sorted(read_by.keys() - marked - IGNORED)]
    return found, problems


def environment_table(found):
    parts = []
    for section in ORDER:
        parts += [f"## {section}\n", "| variable | meaning |", "|---|---|"]
        parts += [f"| {', '.join(f'`{name}`' for name in names)} | {meaning} |" for names, meaning in found[section]]
        parts.append("")
    return "\n".join(parts)


def exceptions(root):
    """{kind: (class, built-in exceptions, docstring, fields)} of python/ingot/errors.py."""
    tree = ast.parse((root / "python" / "ingot" / "errors.py").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    table = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "_CLASSES")
    made = {}
    for kind, name in zip(table.keys, table.values):
        node = classes[name.id]
        made[kind.value] = (name.id, [base.id for base in node.bases if base.id != "Error"], ast.get_docstring(node),
                            [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)])
    return made


def statuses(root):
    """{status of the C API: its comment}."""
    return dict(re.findall(r"^  INGOT_(\w+) = \d+,? *(?:///< (.*))?$", (root / "src/ingot/c_api/error.h").read_text(), re.MULTILINE))


def sentence(doc):
    """A comment as a cell of a table."""
    return " ".join(re.sub(r"^ *///? ?", "", doc, flags=re.MULTILINE).replace("``", "`").split()).rstrip(".")


def errors_table(root):
    python, status = exceptions(root), statuses(root)
    rows, problems = [], []
    for path in sources(root, ".h"):
        text = path.read_text()
        for doc, name, body in CLASS.findall(text) if KIND.search(text) else []:
            kind = KIND.search(body)
            if not kind or kind.group(1) in INTERNAL:
                continue
            kind = kind.group(1)
            python_name, builtins, meaning, fields = python.pop(kind, ("", [], None, None))
            if fields is None:
                fields = [re.match(r"\w+", field).group() for group in FIELDS.findall(body) for field in group.split(", ")]
            meaning = sentence(meaning or doc or status.get(kind.upper(), ""))
            if not meaning:
                problems.append(f"{path.relative_to(root)}: {name} has neither a comment nor a docstring in python/ingot/errors.py")
            shown = f"`{python_name}`" + (f" ({', '.join(f'`{b}`' for b in builtins)})" if builtins else "") if python_name else "`Error`"
            c = kind.upper() if kind.upper() in status else "ERROR"
            rows.append((path.as_posix(), f"| `{kind}` | `{name}` | {shown} | `INGOT_{c}` | {', '.join(fields)} | {meaning.replace('|', chr(92) + '|')} |"))
    problems += [f"python/ingot/errors.py: no class of C++ has the kind '{kind}'" for kind in python if kind != "busy"]
    order = sorted(rows, key=lambda row: "base/error.h" not in row[0])
    lines = ["| kind | C++ | Python | C | fields | means |", "|---|---|---|---|---|---|", *(row for _, row in order)]
    return "\n".join(lines) + "\n", problems


def put(page, name, table, check):
    """Writes the table between its marks; what is wrong where it may not."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    text = page.read_text()
    before, rest = text.split(begin)
    made = before + begin + table + end + rest.split(end)[1]
    if made == text:
        return []
    if check:
        return [f"{page.parent.name}/{page.name}: the table is out of date; run tools/docs/catalogue.py"]
    page.write_text(made)
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="fail where a page is out of date, change nothing")
    arguments = parser.parse_args()
    found, problems = variables(arguments.root)
    errors, more = errors_table(arguments.root)
    problems += more
    if not problems:
        problems += put(arguments.root / "docs" / "environment.md", "variables", environment_table(found), arguments.check)
        problems += put(arguments.root / "docs" / "errors.md", "errors", errors, arguments.check)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
