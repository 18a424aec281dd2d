#!/usr/bin/env python3
"""Random chat templates, drawn from what the sandbox of transformers allows, and the text that Jinja2 makes of each.

    python3 tools/goldens/random_templates.py tests/text/random_templates.json [--count 100] [--seed 0]

tests/text reads the sample that is kept there, and others by INGOT_RANDOM_TEMPLATES (`./dev check --deep` draws a thousand). A
template that Jinja2 refuses has to be refused, too. Left out is `escape`, whose result Jinja2 marks (its representation is
Markup('...'), and it escapes what is added to it), and pprint of more than a line. Needs jinja2==3.1.6.
"""
import argparse
import json
import pathlib
import random

from chat_goldens import CONVERSATIONS, TOOLS, environment

TEXTS = ["", "a", "Hello, World", "  trim me \n", "Größe 你好", "<b>&\"q\"'</b>", "one two-three", "aXbXc", "42", "-7", "3.5", "ß", "naïve\tx",
         "<think>\nhm\n</think>\n\nyes", "user", "line1\nline2\n"]
KEYS = ["role", "content", "name", "a", "b", "z"]
CONVERSATION = CONVERSATIONS["tools"]


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"


class Templates(random.Random):
    """Expressions by the kind of what they give, and statements of them."""

    def __init__(self, seed):
        super().__init__(seed)
        self.names = {}  # of variables: their kind

    def any_of(self, *makers):
        return self.choice(makers)()

    def named(self, kind):
        known = [name for name, its in self.names.items() if its == kind]
        return self.choice(known) if known and self.random() < 0.4 else None

    def text(self, d):
        if (name := self.named("text")) is not None:
            return name
        if d <= 0:
            return quoted(self.choice(TEXTS))
        t, n, l = lambda: self.text(d - 1), lambda: self.number(d - 1), lambda: self.list(d - 1)
        return self.any_of(
            lambda: f"({t()} + {t()})", lambda: f"({t()} ~ {self.value(d - 1)})", lambda: f"({t()} * {self.randint(0, 3)})",
            lambda: f"{t()}.{self.choice(['upper', 'lower', 'strip', 'lstrip', 'rstrip', 'title', 'capitalize', 'swapcase', 'casefold'])}()",
            lambda: f"{t()}.{self.choice(['strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix'])}({t()})",
            lambda: f"{t()}.replace({quoted(self.choice(['a', 'X', 'l', ' ']))}, {t()}{self.choice(['', ', 1'])})",
            lambda: f"{t()}.{self.choice(['ljust', 'rjust', 'center'])}({self.randint(0, 12)}{self.choice(['', ', ' + quoted('*')])})",
            lambda: f"{t()}.zfill({self.randint(0, 9)})", lambda: f"{t()}.join({self.texts(d - 1)})",
            lambda: f"{self.texts(d - 1)} | join({t()})", lambda: f"({t()} | {self.choice(['trim', 'upper', 'lower', 'title', 'capitalize', 'striptags', 'urlencode', 'reverse', 'string'])})",
            lambda: f"({t()} | replace({quoted(self.choice(['a', 'X', 'l', 'o']))}, {t()}))", lambda: f"({t()} | indent({self.randint(0, 5)}{self.choice(['', ', true', ', first=true', ', blank=true'])}))",
            lambda: f"({t()} | truncate({self.randint(3, 12)}{self.choice(['', ', true'])}))", lambda: f"({t()} | center({self.randint(1, 15)}))",
            lambda: f"({t()} | wordwrap({self.randint(1, 9)}))", lambda: f"({self.value(d - 1)} | tojson{self.choice(['', '(indent=2)', '(sort_keys=true)', '(ensure_ascii=true)', '(separators=(chr44, chr58))'])})",
            lambda: f"({self.value(d - 1)} | string)", lambda: f"({self.number(d - 1)} | pprint)", lambda: f"{t()}[{self.bounds()}]", lambda: f"{t()}[{self.randint(-3, 3)}]",
            lambda: f"({quoted(self.choice(['%s|%s', '%5s%-4s.', '%r %s']))} % ({self.value(d - 1)}, {t()}))",
            lambda: f"({quoted(self.choice(['%d', '%05d', '%x', '%+d', '%o', '%.3f', '%e', '%g', '%8.2f|']))} % {n()})",
            lambda: f"({quoted(self.choice(['%s-%s', '%s%s']))} | format({t()}, {n()}))",
            lambda: f"{quoted(self.choice(['{}/{}', '{1}{0}', '{0!r}{1}', '{:>8}{:^5}', '{0}{{}}{1}']))}.format({t()}, {t()})",
            lambda: f"({t()} if {self.truth(d - 1)} else {t()})", lambda: f"({t()} or {t()})", lambda: f"({l()} | join)", lambda: f"({l()} | map('string') | join({t()}))",
            lambda: f"{t()}.{self.choice(['partition', 'rpartition'])}({quoted(self.choice([',', ' ', 'X', 'l']))})[{self.randint(0, 2)}]", lambda: f"({t()} | default({t()}{self.choice(['', ', true'])}))",
            lambda: f"messages[{self.randint(-2, 3)}]{self.choice(['.role', '[' + quoted('role') + ']', '.get(' + quoted('name') + ', ' + quoted('?') + ')'])}")

    def number(self, d):
        if (name := self.named("number")) is not None:
            return name
        if d <= 0:
            return self.choice(["0", "1", "2", "-3", "7", "10", "2.5", "-0.5", "1e3", "100", "true", "3.0"])
        n, t, l = lambda: self.number(d - 1), lambda: self.text(d - 1), lambda: self.list(d - 1)
        return self.any_of(
            lambda: f"({n()} {self.choice(['+', '-', '*', '/', '//', '%'])} {n()})", lambda: f"(-{n()})", lambda: f"({self.randint(-4, 9)} ** {self.randint(0, 5)})",
            lambda: f"({l()} | {self.choice(['length', 'count'])})", lambda: f"({t()} | {self.choice(['length', 'int', 'float', 'wordcount'])})",
            lambda: f"({n()} | {self.choice(['abs', 'int', 'float', 'round'])})", lambda: f"({n()} | round({self.randint(0, 2)}{self.choice(['', ', ' + quoted('floor'), ', ' + quoted('ceil')])}))",
            lambda: f"{t()}.{self.choice(['count', 'find', 'rfind'])}({quoted(self.choice(['a', 'l', 'X', 'zz']))})", lambda: f"({t()} | int({self.randint(0, 9)}))",
            lambda: f"({self.numbers(d - 1)} | {self.choice(['sum', 'max', 'min', 'first', 'last'])})", lambda: f"({n()} if {self.truth(d - 1)} else {n()})",
            lambda: f"{self.numbers(d - 1)}[{self.randint(-2, 1)}]", lambda: f"{self.mapping(d - 1)} | length")

    def truth(self, d):
        if d <= 0:
            return self.choice(["true", "false", "none", "messages", "tools", "nothing is defined"])
        b, n, t, v = lambda: self.truth(d - 1), lambda: self.number(d - 1), lambda: self.text(d - 1), lambda: self.value(d - 1)
        compare = lambda: self.choice(["==", "!=", "<", "<=", ">", ">="])
        return self.any_of(
            lambda: f"({n()} {compare()} {n()})", lambda: f"({t()} {compare()} {t()})", lambda: f"({v()} {self.choice(['==', '!='])} {v()})", lambda: f"({n()} {compare()} {n()} {compare()} {n()})",
            lambda: f"({b()} {self.choice(['and', 'or'])} {b()})", lambda: f"(not {b()})", lambda: f"({t()} {self.choice(['in', 'not in'])} {t()})", lambda: f"({v()} {self.choice(['in', 'not in'])} {self.list(d - 1)})",
            lambda: f"({v()} is {self.choice(['string', 'number', 'mapping', 'iterable', 'sequence', 'none', 'boolean', 'true', 'false', 'integer', 'float', 'callable', 'not string', 'not none', 'defined'])})",
            lambda: f"({n()} is {self.choice(['odd', 'even', 'divisibleby 3', 'gt 2', 'le(4)', 'eq 1'])})", lambda: f"({t()} is {self.choice(['upper', 'lower', 'eq ' + quoted('a'), 'in ' + quoted('abc')])})",
            lambda: f"{t()}.{self.choice(['startswith', 'endswith'])}({quoted(self.choice(['a', 'H', 'user', 'c']))})", lambda: f"{t()}.{self.choice(['isdigit', 'isalpha', 'isalnum', 'isspace', 'islower', 'isupper', 'istitle', 'isnumeric', 'isdecimal'])}()",
            lambda: f"({self.name_or('nothing')} is {self.choice(['defined', 'undefined', 'not defined'])})")

    def name_or(self, other):
        return self.choice([*self.names, other])

    def texts(self, d):
        return "[" + ", ".join(self.text(d - 1) for _ in range(self.randint(0, 3))) + "]"

    def numbers(self, d):
        return "[" + ", ".join(self.number(d - 1) for _ in range(self.randint(1, 4))) + "]"

    def list(self, d):
        if (name := self.named("list")) is not None:
            return name
        if d <= 0:
            return self.choice(["[]", "[1, 2, 3]", "['b', 'A', 'a']", "range(4) | list", "(1, 'x', none)", "messages", "[[1, 2], [3]]"])
        l, t = lambda: self.list(d - 1), lambda: self.text(d - 1)
        return self.any_of(
            lambda: f"[{self.value(d - 1)}, {self.value(d - 1)}]", lambda: f"({l()} + {l()})", lambda: f"({self.numbers(d - 1)} | sort{self.choice(['', '(reverse=true)'])})", lambda: f"({self.texts(d - 1)} | sort{self.choice(['', '(true)', '(case_sensitive=true)'])})",
            lambda: f"({self.texts(d - 1)} | unique | list)", lambda: f"({l()} | reverse | list)", lambda: f"({l()} | list)[{self.bounds()}]", lambda: f"{t()}.split({self.choice(['', quoted(','), quoted(' '), quoted('X') + ', 1'])})", lambda: f"{t()}.splitlines()",
            lambda: f"({l()} | batch({self.randint(1, 3)}{self.choice(['', ', ' + quoted('-')])}) | list)", lambda: f"({l()} | slice({self.randint(1, 3)}) | list)", lambda: f"({self.texts(d - 1)} | map({quoted(self.choice(['upper', 'length', 'trim', 'title']))}) | list)",
            lambda: f"(messages | map(attribute={quoted(self.choice(KEYS[:3]))}{self.choice(['', ', default=' + quoted('-')])}) | list)", lambda: f"(messages | {self.choice(['selectattr', 'rejectattr'])}({quoted('role')}, {quoted(self.choice(['eq', 'equalto', 'ne', 'in']))}, {quoted(self.choice(['user', 'tool', 'assistant']))}) | list)",
            lambda: f"({self.numbers(d - 1)} | {self.choice(['select', 'reject'])}({quoted(self.choice(['odd', 'even', 'number']))}) | list)", lambda: f"{self.mapping(d - 1)}.{self.choice(['items', 'keys', 'values'])}() | list", lambda: f"({self.mapping(d - 1)} | {self.choice(['dictsort', 'items | list', 'list'])})",
            lambda: f"({t()} | list)", lambda: f"range({self.randint(0, 3)}, {self.randint(2, 7)}{self.choice(['', ', 2'])}) | list", lambda: f"(messages | groupby({quoted('role')}) | map('first') | list)")

    def mapping(self, d):
        if (name := self.named("mapping")) is not None:
            return name
        if d <= 0:
            return self.choice(["{}", "{'a': 1}", "{'b': 'x', 'a': none}", "messages[0]", "tools[0].function", "{1: 2, true: 'q'}"])
        return self.any_of(lambda: "{" + ", ".join(f"{quoted(key)}: {self.value(d - 1)}" for key in self.sample(KEYS, self.randint(0, 3))) + "}", lambda: f"dict({self.choice(KEYS[3:])}={self.value(d - 1)})", lambda: f"dict({self.mapping(d - 1)}, z={self.number(d - 1)})",
                           lambda: f"{self.mapping(d - 1)}")

    def value(self, d):
        return self.any_of(lambda: self.text(d), lambda: self.text(d), lambda: self.number(d), lambda: self.list(d), lambda: self.mapping(d), lambda: f"({self.truth(d)})",
                           lambda: self.choice(["none", "nothing", f"{self.mapping(d - 1)}.{self.choice(KEYS)}", f"{self.mapping(d - 1)}.get({quoted(self.choice(KEYS))})", f"{self.mapping(d - 1)}[{quoted(self.choice(KEYS))}]"]))

    def bounds(self):
        part = lambda: self.choice(["", "", str(self.randint(-4, 5))])
        return part() + ":" + part() + self.choice(["", "", ":2", ":-1"])

    def of_kind(self, kind, d):
        return {"text": self.text, "number": self.number, "list": self.list, "mapping": self.mapping}[kind](d)

    def tag(self, body):
        return "{%" + self.choice(["", "", "-", "+"]) + f" {body} " + self.choice(["", "", "-"]) + "%}"

    def shown(self, d):
        return "{{" + self.choice(["", "", "-"]) + f" {self.value(d)} " + self.choice(["", "", "-"]) + "}}"

    def scoped(self, d, **names):
        """Statements that see these names; what they set is gone behind them."""
        kept = dict(self.names)
        self.names |= names
        text = self.statements(d)
        self.names = kept
        return text

    def statement(self, d):
        if d <= 0:
            return self.any_of(lambda: self.shown(2), lambda: self.choice([" plain ", "\n", "x\n  ", "{# note #}", "{#- note -#}\n", "{% raw %}{{ x }}{% endraw %}"]))
        name, kind = f"v{self.randint(0, 5)}", self.choice(["text", "number", "list", "mapping"])

        def assignment():
            text = self.tag(f"set {name} = {self.of_kind(kind, 2)}")
            self.names[name] = kind
            return text

        def captured():
            text = self.tag(f"set {name}{self.choice(['', ' | upper', ' | trim'])}") + self.scoped(d - 1) + self.tag("endset")
            self.names[name] = "text"
            return text

        def namespaced():
            text = self.tag(f"set ns = namespace(n={self.number(1)}, t={self.text(1)})") + self.tag(f"for i in {self.numbers(1)}")
            return text + self.tag(f"set ns.n = ns.n {self.choice(['+', '-', '*'])} i") + self.tag(f"set ns.t = ns.t ~ {self.text(1)}") + self.tag("endfor") + "{{ ns.n }}{{ ns.t }}"

        def branches():
            text = self.tag(f"if {self.truth(2)}") + self.scoped(d - 1)
            if self.random() < 0.4:
                text += self.tag(f"elif {self.truth(2)}") + self.scoped(d - 1)
            if self.random() < 0.5:
                text += self.tag("else") + self.scoped(d - 1)
            return text + self.tag("endif")

        def loop():
            head = self.any_of(lambda: (f"for i in {self.numbers(1)}", "number"), lambda: (f"for i in {self.texts(2)}", "text"), lambda: (f"for i in {self.list(1)}", "any"), lambda: ("for i in messages", "mapping"),
                               lambda: (f"for i, j in {self.mapping(1)}.items()", "any"), lambda: (f"for i in {self.numbers(1)} if i {self.choice(['> 1', 'is odd', '!= 2'])}", "number"))
            inside = "{{ loop." + self.choice(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem is defined", "nextitem", "cycle('a', 'b')", "changed(i)", "depth"]) + " }}"
            leave = self.choice(["", "", self.tag(f"if loop.index {self.choice(['==', '>'])} 2") + self.tag(self.choice(["break", "continue"])) + self.tag("endif")])
            otherwise = self.choice(["", self.tag("else") + "none"])
            return self.tag(head[0]) + inside + leave + self.scoped(d - 1, i=head[1]) + otherwise + self.tag("endfor")

        def macro():
            text = self.tag(f"macro m(p, q={self.text(1)})") + self.scoped(d - 1, q="text") + "{{ p }}" + self.choice(["", "{{ varargs }}", "{{ kwargs }}"]) + self.tag("endmacro")
            return text + "{{ m(" + self.choice([self.value(1), f"{self.value(1)}, {self.text(1)}", f"p={self.number(1)}", f"1, q={self.text(1)}", "1, 2, 3", "1, z=2", "*[1]"]) + ") }}"

        def called():
            return self.tag("macro w(p)") + "<{{ p }}{{ caller() }}>" + self.tag("endmacro") + self.tag(f"call w({self.value(1)})") + self.scoped(d - 1) + self.tag("endcall")

        return self.any_of(assignment, assignment, captured, namespaced, branches, branches, loop, loop, macro, called, lambda: self.shown(3), lambda: self.shown(3),
                           lambda: self.tag(f"filter {self.choice(['upper', 'trim', 'replace(' + quoted('a') + ', ' + quoted('b') + ')', 'indent(2)', 'title'])}") + self.scoped(d - 1) + self.tag("endfilter"),
                           lambda: self.tag(f"with {name} = {self.value(1)}") + self.scoped(d - 1, **{name: "any"}) + self.tag("endwith"), lambda: self.tag("generation") + self.scoped(d - 1) + self.tag("endgeneration"))

    def statements(self, d):
        return "".join(self.statement(d - self.randint(0, 1)) for _ in range(self.randint(1, 3)))


def row(seed):
    template = Templates(seed).statements(3).replace("(chr44, chr58)", "(',', ':')")
    given = {"messages": CONVERSATION, "tools": TOOLS, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    try:
        return {"template": template, "output": environment().from_string(template).render(given)}
    except Exception as e:  # whatever Jinja2 and Python say of it
        return {"template": template, "error": f"{type(e).__name__}: {e}"[:120]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows, number = [], 0
    errors = 0
    while len(rows) < args.count:
        found = row(f"{args.seed} {number}")
        number += 1
        if len(found["template"]) > 1200 or len(found.get("output", "")) > 4000:
            continue
        errors += "error" in found
        if "error" in found and errors * 4 > args.count:  # most have to render
            continue
        rows.append(found)
    args.file.write_text(json.dumps({"messages": CONVERSATION, "tools": TOOLS, "cases": rows}, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
