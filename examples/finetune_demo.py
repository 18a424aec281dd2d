#!/usr/bin/env python3
"""QLoRA of a small chat model, from a GGUF file to a merged and quantized one that answers: ./dev finetune-demo

SmolLM2-135M-Instruct learns to turn a request into one JSON call (examples/data/calls.jsonl). The held-out requests are scored
before and after: an answer is right when its JSON is the expected object. Only Python's own library is needed.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import time

from demo_model import MODEL, fetch_model

EXAMPLES = pathlib.Path(__file__).resolve().parent
CONFIG, HELD_OUT = EXAMPLES / "data" / "calls.yaml", EXAMPLES / "data" / "calls_heldout.jsonl"
TIME_LIMIT = 900  # of the whole demo, in seconds


def say(text=""):
    print(text, flush=True)


class Demo:
    def __init__(self, ingot, model, out, scored):
        self.ingot, self.model, self.out, self.started = ingot, str(model), pathlib.Path(out), time.time()
        self.chats = [json.loads(line)["messages"] for line in HELD_OUT.read_text().splitlines()][:scored]

    def run(self, *words, text=None):
        # Threads that sleep while they wait: those that spin take a tenfold of the time where others use the processors too.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        result = subprocess.run([self.ingot, *map(str, words)], input=text, stdout=subprocess.PIPE, text=True, env=environment)
        if result.returncode != 0:
            raise SystemExit(f"finetune-demo: ingot {words[0]} failed with code {result.returncode}; its message is above")
        return result.stdout

    def train(self, out, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        data = EXAMPLES / "data"
        return json.loads(self.run("train", CONFIG, "--json", "--set", f"base_model={self.model}", "--set", f"output_dir={out}",
                                   "--set", f"datasets.0.path={data / 'calls.jsonl'}",
                                   "--set", f"test_datasets.0.path={data / 'calls_heldout.jsonl'}", *words))

    def answers(self, model, *options):
        """Greedy answers to the held-out requests."""
        words, prompts = [], []
        for chat in self.chats:
            turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in chat[:-1])
            prompts.append(turns + "<|im_start|>assistant\n")
            words += ["-p", prompts[-1]]
        texts = json.loads(self.run("generate", model, *options, *words, "-n", 48, "-t", 0, "--json"))["texts"]
        return [text["text"].removeprefix(prompt).replace("<|im_end|>", "").strip() for text, prompt in zip(texts, prompts)]

    def score(self, answers):
        right = 0
        for chat, answer in zip(self.chats, answers):
            try:
                right += json.loads(answer) == json.loads(chat[-1]["content"])
            except json.JSONDecodeError:
                pass
        return right

    def all(self):
        out, count = self.out, len(self.chats)
        say(self.run("data", "preview", CONFIG, "-n", 1, "--set", f"base_model={self.model}", "--set", f"output_dir={out}",
                     "--set", f"datasets.0.path={EXAMPLES / 'data' / 'calls.jsonl'}",
                     "--set", f"test_datasets.0.path={HELD_OUT}"))
        say(":: the model before: held-out loss and answers")
        # A fresh adapter changes nothing, and neither does a step of length zero.
        before_loss = self.train(out / "before", "max_steps=1", "learning_rate=0", "report_to=[]")["validation_loss"]
        before = self.answers(self.model)
        say(f"   loss {before_loss:.3f}, {self.score(before)} of {count} right")
        say(":: QLoRA")
        left = TIME_LIMIT - (time.time() - self.started)
        training = time.time()
        result = self.train(out, f"max_seconds={max(60, int(left * 0.5))}")
        training = time.time() - training
        adapter = result["model"]
        after = self.answers(self.model, "--adapter", adapter)
        say(f"   loss {result['validation_loss']:.3f}, {self.score(after)} of {count} right, {result['steps']} steps in {training:.0f} s")
        say(":: merging, and quantizing to q8_0")
        self.run("merge", self.model, out / "merged", "--adapter", adapter)
        final = out / "calls-q8_0.gguf"
        self.run("quantize", out / "merged", final, "--format", "q8_0")
        merged = self.answers(final)
        question = "Will it rain in Lisbon on Friday?"
        answer = self.run("chat", final, "--system", self.chats[0][0]["content"], "-t", 0, "-n", 48, text=question + "\n").strip()
        say(f"   {self.score(merged)} of {count} right")
        rows = [("held-out loss", f"{before_loss:.3f}", f"{result['validation_loss']:.3f}", ""),
                (f"right calls of {count}", self.score(before), self.score(after), self.score(merged))]
        self.report(rows, before, after, result, question, answer, training)

    def report(self, rows, before, after, result, question, answer, training):
        lines = ["# From requests to JSON calls", "",
                 f"{MODEL}, QLoRA: {result['steps']} steps in {training:.0f} s; the whole demo took {time.time() - self.started:.0f} s.", "",
                 "| | before | after | merged, q8_0 |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        lines += ["", "| request | before | after |", "|---|---|---|"]
        for chat, old, new in list(zip(self.chats, before, after))[:7]:
            cells = [chat[1]["content"], old.replace("\n", " ").replace("|", "\\|")[:60] + " ...", f"`{new}`"]
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", f"Chat with `{self.out / 'calls-q8_0.gguf'}`:", "", f"    > {question}", f"    {answer}", ""]
        path = self.out / "demo.md"
        path.write_text("\n".join(lines))
        say("\n" + "\n".join(lines))
        say(f"This page: {path}; the loss curve: {result['report'] or self.out / 'report.html'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default="build/bin/ingot", help="the program")
    parser.add_argument("--model", help=f"a GGUF file with chatml tokens; default: {MODEL}, fetched once")
    parser.add_argument("--out", default="out/finetune-demo", help="where everything goes; emptied first")
    parser.add_argument("--scored", type=int, default=28, help="held-out requests to answer, up to 60")
    options = parser.parse_args()
    model = options.model or fetch_model()
    if model is None:
        return
    out = pathlib.Path(options.out)
    if out.exists():
        if out.is_dir() and any(out.iterdir()) and not (out / "config.yaml").exists() and not (out / "before").exists():
            raise SystemExit(f"finetune-demo: {out} holds something else; name another folder with --out")
        shutil.rmtree(out)
    Demo(options.ingot, model, out, options.scored).all()


main()
