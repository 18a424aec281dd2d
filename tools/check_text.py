#!/usr/bin/env python3
"""Rules for the text of every tracked file.

An error: a path that exists on one person's machine only, a merge conflict left behind, a file too big for git, a quoted
example ("<!-- example: FILE -->" before a block of code) that is not what FILE holds, a link to a page that is not there,
a range algorithm that clang 14 (clang-tidy, the fuzzers) cannot parse. In pages (README.md, docs/) also a sentence of more than
25 words, and a page that does not begin with what it is for and a command. In pages, in comments, and in what programs say
(strings of sources), a private word where the field has one: docs/glossary.md. Words that are private in one sense alone
(PRIVATE_SENSES) are errors in pages and strings, in phrases that show that sense.
A warning: a source file longer than a reader likes.
"""
import argparse
import pathlib
import re
import subprocess
import sys

MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:work|root|home/[a-z]\w*|Users/\w+|mnt/[a-z]\w*|opt/[a-z]\w*/)(?=[/\s\"'`,;:)\]]|$)")
CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)")
EXAMPLE = re.compile(r"^<!-- example: (\S+) -->$\n^```\w*$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)")
MENTION = re.compile(r"(?<![\w/.-])docs/[\w-]+\.md")
# With libstdc++ 12 clang 14 finds std::ranges::subrange, which these return, to be no range.
SUBRANGE = re.compile(r"\bstd::ranges::(?:subrange|rotate|unique|remove|remove_if|partition|stable_partition|equal_range|"
                      r"search|search_n|find_end)\b")
GENERATED = re.compile(r"(?:commands|configuration|models|benchmarks-\w[\w-]*)\.md")  # by tools/docs/pages.py


def words(*pairs):
    """[(pattern, what to write)]."""
    return [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in pairs]


# Words of this project where the field has its own: (pattern, what to write).
PRIVATE = words(
    (r"(?<!model )cards?", "GPU"),
    (r"verbs?", "command"),
    (r"mend(?:s|ed|ing)?", "fix"),
    (r"likeliest", "most probable, or greedy decoding"),
    (r"guess(?:es|ed|ing)? (?:tokens )?ahead|right guesses", "speculative decoding, draft tokens, accepted tokens"),
    (r"half types", "fp16, bf16, half precision"),
    (r"matrix products?", "matmul"),
    (r"(?:one|each) (?:behind|below) (?:an)?other in memory|lies? one behind another", "contiguous, concatenated"),
    (r"captured work", "CUDA graph"),
    (r"taken together", "batched"),
    (r"(?<!there )(?:is|are) no (?!longer|more|less|better|worse|larger|smaller|one\b)\w+", "is not a ..."),
    (r"\w*(?:quant|optim|normal|initial|general|vector|synchron|serial|token)is(?:e|es|ed|er|ers|ing|ation|ations)", "-ize"),
)
PRIVATE_SENSES = words(
    (r"what follows a (?:product|matmul)|gradients? of (?:the |its |both )?operands", "epilogue; input gradient, weight gradient"),
    (r"texts? (?:that (?:is|are) )?being written|(?:several|many) texts at (?:once|a time)", "sequence, request, batch"),
    (r"places? (?:of|in) (?:a |an |the |its |each |every |all )?(?:tensors?|buffers?|tokens?|rows?|sequences?|elements?|blocks?|lists?|caches?)",
     "index, offset, position, slot"),
    (r"turn(?:s|ed|ing)? (?:the )?(?:heads?|queries|keys|pairs|matrix|matrices)|(?:pairs|elements|heads)\b[^.]{0,24}\b(?:that|to) turn",
     "rotate, transpose"),
    (r"packs? of (?:\w+ )?(?:elements|rows|values|numbers|vectors|codes)", "rows, vectors, elements"),
    (r"teams? of (?:\w+ )?(?:threads|lanes|warps)", "thread group, warp, block"),
    (r"forms? of (?:a |the |this )?(?:kernel|matmul|tile)s?|(?:kernel|tile|matmul)(?:'s|s)? forms?", "kernel config, tile shape"),
    (r"(?:in|as) halves", "fp16, bf16, half precision"),
    (r"(?:made|makes?|making) (?:it |them )?again|(?:run|runs|ran) (?:it |them )?once more", "recompute"),
    (r"captured steps", "CUDA graph"),
    (r"(?:the|these|those|all|more|its|their) figures|figures (?:of|for)", "metrics"),
    (r"one behind another|joined (?:weights?|matrices|projections)|(?:weights?|matrices|projections|parameters) (?:lie |are )?side by side",
     "concatenated, fused"),
    (r"round(?:s|ed|ing)? (?:the|its) inputs?", "quantize activations"),
    (r"tiles of (?:the )?weights|weights in tiles", "prepacked weights"),
    (r"(?:backend|device)(?:'s)? lea(?:f|ves)|lea(?:f|ves) of (?:the |a )?(?:backend|device)s?", "backend"),
    (r"(?:the|its|their|our|a|every|each|one of|without) peers?(?! (?:address|to|at|closed))|peers of|the originals|original (?:program|implementation)s?",
     "baseline, reference implementation"),
    (r"some at a time", "in batches, in blocks"),
    (r"seconds until (?:the |a )?(?:first|next)", "time to first token, latency"),
    (r"passes over (?:the |a |all )?(?:data|samples|tables?|rollout)", "epoch"),
    (r"schedules? (?:that|which|of (?:the )?learning)", "learning-rate scheduler"),
    (r"what (?:is|was) (?:there|cached) already", "cache hit"),
)
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
# What a source says: its strings and comments. Raw strings and characters are matched so that quotes in them begin nothing.
SAID = re.compile(r'R"([^(\s]*)\(.*?\)\1"|\'(?:[^\'\\\n]|\\.)\'|"(?P<string>(?:[^"\\\n]|\\.)*)"|(?P<comment>//[^\n]*|/\*.*?\*/)', re.DOTALL)
SCRIPT_SAID = re.compile(r'(?P<comment>""".*?"""|(?<![^\s])#[^\n]*)|(?P<quote>["\'])(?P<string>(?:(?!(?P=quote))[^\\\n]|\\.)*)(?P=quote)', re.DOTALL)
SHELL = {"dev", "run"}
WORD = re.compile(r"[\w'’.-]+")
MOST_WORDS = 25
LIST_COMMAS = 4  # a sentence with so many is an enumeration
BIGGEST = 1 << 20
LONGEST = 600
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py"}


def tracked(root):
    """What a commit would hold: tracked files and new ones that git does not ignore."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                           capture_output=True, check=True).stdout.decode().split("\0")
    return [root / name for name in sorted(set(names)) if name and (root / name).is_file()]


def stale_examples(text, root):
    """(line, file) of every quoted example that differs from its file."""
    for match in EXAMPLE.finditer(text):
        source = root / match.group(1)
        if not source.is_file() or source.read_text() != match.group(2):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def dead_links(path, text, root):
    """(line, target) of every link of a Markdown page, and of every mention of a page of docs/, that leads nowhere."""
    if path.suffix == ".md":
        for match in LINK.finditer(text):
            target = path.parent / match.group(1)
            if not target.exists() and not (target.parent.name == "docs" and GENERATED.fullmatch(target.name)):
                yield text.count("\n", 0, match.start()) + 1, match.group(1)
    for match in MENTION.finditer(text):
        if not (root / match.group()).exists() and not GENERATED.fullmatch(pathlib.Path(match.group()).name):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def blanked(pattern, text):
    """The text with what matches replaced by spaces, line by line."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def private_words(path, text):
    """(line, word, what to write) in a page's prose, or in the strings and comments of a source."""
    if path.suffix == ".md":
        said = [(0, blanked(CODE, blanked(FENCED, text)), True)]
    elif path.name in SHELL or path.suffix == ".sh":
        said = [(0, text, True)]
    elif path.suffix in SOURCES | {".cmake"} and "tests" not in path.parts and path.name != "check_text.py":
        found = (SCRIPT_SAID if path.suffix in {".py", ".cmake"} else SAID).finditer(text)
        said = [(match.start(part), match.group(part), part == "string") for match in found for part in ("string", "comment")
                if match.group(part) and not match.group(part).endswith(".h")]
    else:
        return
    for start, phrase, spoken in said:
        for pattern, instead in PRIVATE + (PRIVATE_SENSES if spoken else []):
            for match in pattern.finditer(phrase):
                yield text.count("\n", 0, start + match.start()) + 1, match.group(), instead


def paragraphs(text):
    """(line, text) of each paragraph, item and cell of a table."""
    lines, start = [], 0
    for number, line in enumerate(blanked(FENCED, text).splitlines() + [""], 1):
        line = line.strip()
        begins = re.match(r"(?:[-*]|\d+\.)\s+", line)
        if lines and (not line or begins or line[0] in "#|<"):
            yield start, " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        elif line and line[0] not in "#<":
            start = start if lines else number
            lines.append(line[begins.end():] if begins else line)


def long_sentences(text):
    """(line, words, beginning) of each sentence that is too long. A semicolon or a colon ends one, too."""
    for line, paragraph in paragraphs(text):
        plain = re.sub(r"\([^()]*\)", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", CODE.sub("X", paragraph)))
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z*\[\d\"X])|[;:]\s+", plain):
            count = len(WORD.findall(sentence))
            if count > MOST_WORDS and sentence.count(",") < LIST_COMMAS:
                yield line, count, sentence[:40]


def opening_problem(text):
    """What is wrong with how a page begins; None where all is well."""
    head = text.split("\n## ")[0].split("\n", 1)
    if not head[0].startswith("# "):
        return "does not begin with a title"
    if not re.match(r"\s*(?:[A-Za-z]|`[^`])", head[1] if len(head) > 1 else ""):
        return "does not say first, in a sentence, what it is for"
    return None if "```" in head[1] else "has no command or example before its first section"


def check(paths, root):
    errors, warnings = [], []
    for path in paths:
        shown = path.relative_to(root)
        data = path.read_bytes()
        if len(data) > BIGGEST:
            errors.append(f"{shown}:1: is {len(data)} bytes; a file in git has at most {BIGGEST}")
        if b"\0" in data[:8192]:
            continue
        text = data.decode(errors="replace")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            match = MACHINE_PATH.search(line)
            if match:
                errors.append(f"{shown}:{number}: names {match.group()}, a path of one machine; make it relative")
            if path.suffix in {".h", ".cpp"} and (match := SUBRANGE.search(line)):
                errors.append(f"{shown}:{number}: clang 14 cannot parse {match.group()}; take the algorithm of iterators")
            if CONFLICT.match(line):
                errors.append(f"{shown}:{number}: a merge conflict was left behind")
        if path.suffix == ".md":
            errors += [f"{shown}:{number}: the example is not {name} as it is now; copy it anew"
                       for number, name in stale_examples(text, root)]
        errors += [f"{shown}:{number}: leads to {target}, which is not there" for number, target in dead_links(path, text, root)]
        errors += [f"{shown}:{number}: '{word}': write {instead}" for number, word, instead in private_words(path, text)]
        if shown.parent.name == "docs" and path.suffix == ".md" and (problem := opening_problem(text)):
            errors.append(f"{shown}:1: {problem}")
        if path.suffix == ".md" and (shown.parent.name == "docs" or shown.name == "README.md"):
            errors += [f"{shown}:{number}: a sentence of {count} words, at most {MOST_WORDS}: {beginning}..."
                       for number, count, beginning in long_sentences(text)]
        if path.suffix in SOURCES and len(lines) > LONGEST:
            warnings.append(f"{shown}:{len(lines)}: warning: {len(lines)} lines; over {LONGEST} a file wants to be two")
    return errors, warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    errors, warnings = check(tracked(root), root)
    for line in warnings + errors:
        print(line)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
