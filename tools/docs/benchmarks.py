"""A page for each machine of bench/results: its current results as tables, beside baselines, goals and limits."""
import html
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import results  # noqa: E402

ORDER = ("Training", "Policy", "Decoding", "Eight", "Prompt", "From process", "Sampling", "BERT", "Forecasting", "Tokenizers")
BAR = 90  # pixels of the longest bar
AHEAD, BEHIND = "#43a047", "#fb8c00"


def figure(value):
    """Three digits and more where they are whole: 0.0082, 1.44, 901, 203 126."""
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 1000 else f"{value:.3g}"


def bar(run, longest):
    """The ratio as a bar, with a line at 1."""
    value = results.ratio(run)
    colour = AHEAD if value >= run.get("goal", 1) else BEHIND
    scale = BAR / longest
    return (f'<svg width="{BAR + 2}" height="12" role="img" aria-label="{value:.2f}">'
            f'<rect width="{value * scale:.1f}" height="12" fill="{colour}"/>'
            f'<rect x="{scale:.1f}" width="1.5" height="12" fill="currentColor"/></svg>')


def share(run):
    """How near the machine's limit it comes, in words."""
    reached = results.share(run)
    goal = f" (goal {100 * run['limit_goal']:.0f} %)" if "limit_goal" in run else ""
    return f"{100 * reached:.0f} % of {run['limit_of']}{goal}" if reached else ""


def row(run, longest):
    value = results.ratio(run)
    spread = " ({} to {})".format(*map(figure, run["spread"])) if "spread" in run else ""
    peer = f"{run['peer']['name']} {run['peer']['version']}: {figure(run['peer']['median'])}" if "peer" in run else ""
    goal = f" (goal {run['goal']:g})" if value and "goal" in run else ""
    cells = [run["work"], f"{figure(run['median'])} {run['unit']}{spread}", peer,
             f"{bar(run, longest)} {value:.2f}{goal}" if value else "", share(run), run.get("note", ""), run["date"]]
    return cells


def table(runs):
    """A Markdown table without the columns that are empty in all rows."""
    longest = max([results.ratio(run) or 0 for run in runs] + [1])
    heads = ["work", "Ingot", "beside", "ratio", "of the limit", "note", "date"]
    rows = [row(run, longest) for run in runs]
    used = [i for i in range(len(heads)) if any(cells[i] for cells in rows)]
    lines = [" | ".join(heads[i] for i in used), "|".join("---" for _ in used)]
    lines += [" | ".join(cells[i].replace("|", "\\|") for i in used) for cells in rows]
    return "\n".join(f"| {line} |" for line in lines)


def commands(runs):
    listed = "\n".join(dict.fromkeys(run["command"] for run in runs))
    return f"<details><summary>Commands</summary><pre><code>{html.escape(listed)}</code></pre></details>"


def missed(runs):
    """The goals that are missed by more than half a percent."""
    lines = [f"| {run['group']} | {run['work']} | {what} | {reached:.2f} | {goal:g} |"
             for run in runs for what, reached, goal in results.goals(run) if reached < 0.995 * goal]
    return "\n".join(["| group | work | goal for | reached | goal |", "|---|---|---|---|---|", *lines]) if lines else "Every goal is met."


def rank(group):
    """Where a group stands on the page."""
    return next((i for i, start in enumerate(ORDER) if group.startswith(start)), len(ORDER)), group


def page(folder, machine):
    runs = sorted(results.current(folder), key=lambda run: rank(run["group"]))
    groups = dict.fromkeys(run["group"] for run in runs)
    parts = [f"# {machine['name']}", f"Measured on {machine['hardware']}; {machine['software']}. [What is compared, and how](benchmarks.md).",
             "A ratio above 1 means that Ingot is ahead; the line in a bar is at 1. Green bars reach the goal, or 1 where there is none.",
             "## Goals not met", missed(runs)]
    for group in groups:
        of_group = [run for run in runs if run["group"] == group]
        parts += [f"## {group}", table(of_group), commands(of_group)]
    return "\n\n".join(parts) + "\n"


def pages(root=results.ROOT):
    """(file name, text) of every machine's page."""
    errors = results.check(root)
    if errors:
        raise SystemExit("\n".join(errors))
    for path in sorted(root.glob("*/machine.json")):
        yield f"benchmarks-{path.parent.name}.md", page(path.parent, results.json.loads(path.read_text()))
