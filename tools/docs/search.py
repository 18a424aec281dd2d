#!/usr/bin/env python3
"""Asks the built site's search what a newcomer would ask, and compares with the page that answers it.

    python3 tools/docs/search.py build-docs/site [QUERY...]

The index and the ranking are those of MkDocs-Material: lunr without a stemmer, titles before text, sections counted to their page.
With queries it prints what is found. Without, each of QUESTIONS has to find its page: first, or among the first three.
"""
import argparse
import json
import pathlib
import sys

from lunr.builder import Builder
from lunr.pipeline import Pipeline
from lunr.stop_word_filter import stop_word_filter
from lunr.trimmer import trimmer

FIRST, NEAR = 1, 3
QUESTIONS = [
    ("fine-tune a checkpoint on a text", "fine-tuning.html", FIRST),
    ("quantize a model", "quantize.html", FIRST),
    ("what uses memory", "memory.html", FIRST),
    ("find what memory goes to", "memory.html", NEAR),  # behind titles that begin with "to"
    ("add an activation function", "add-an-op.html", FIRST),
    ("read a trace", "tracing.html", FIRST),
    ("train a language model", "training.html", FIRST),
    ("continue training", "continue-training.html", FIRST),
    ("resume training from a checkpoint", "continue-training.html", FIRST),
    ("convert to gguf", "porting.html", NEAR),
    ("embed texts", "embed.html", FIRST),
    ("rerank", "embed.html", NEAR),
    ("onnx", "onnx.html", FIRST),
    ("forecast csv", "forecasting.html", FIRST),
    ("hyper-parameters", "tuning.html", NEAR),
    ("mahjong", "mahjong.html", NEAR),
    ("serve", "serving.html", FIRST),
    ("openai api", "serving.html", NEAR),
    ("chat", "inference.html", NEAR),
    ("lora adapter", "adapters.html", NEAR),
    ("qlora", "fine-tuning.html", NEAR),
    ("sft", "fine-tuning.html", NEAR),
    ("finetune", "fine-tuning.html", NEAR),
    ("4 bits", "quantize.html", NEAR),
    ("gpu memory usage", "memory.html", NEAR),
    ("custom activation", "add-an-op.html", FIRST),
    ("profile training", "tracing.html", NEAR),
    ("out of memory", "memory.html", NEAR),
    ("profiler", "tracing.html", NEAR),
    ("slow step", "tracing.html", NEAR),
    ("speculative decoding", "inference.html", NEAR),
    ("kv cache", "inference.html", NEAR),
    ("tokenizer", "text.html", NEAR),
    ("plugin", "plugins.html", FIRST),
    ("multi gpu", "gpu.html", NEAR),
    ("install", "install.html", FIRST),
    ("environment variables", "environment.html", FIRST),
    ("add a model", "add-a-model.html", NEAR),
    ("state_dict", "weights.html", NEAR),
]


def index_of(documents):
    builder = Builder()
    for step in (trimmer, stop_word_filter):
        builder.pipeline.add(step)
    builder.ref("location")
    builder.field("title", boost=1000)
    builder.field("text")
    for document in documents:
        builder.add(document)
    return builder.build()


def pages_found(index, documents, query):
    """Pages, best first, each with the score of its best section."""
    words = [word for word in index_words(query)]
    found = []
    for hit in index.search(query + "*"):
        location = hit["ref"]
        matched = hit["match_data"].metadata.keys()
        every = all(any(term.startswith(word) for term in matched) for word in words)
        found.append((hit["score"] * (1 + ("#" not in location) + every), location))
    pages = {}
    for score, location in sorted(found, reverse=True):
        pages.setdefault(location.partition("#")[0], (score, documents[location]["title"]))
    return pages


def index_words(query):
    """The words of a query that are searched for."""
    words = [word.lower().strip(".,?!'\"") for word in query.replace("-", " ").split()]
    return [word for word in words if word not in STOP_WORDS]


STOP_WORDS = set("a an and are as at be by do for from how i in is it of on or that the to what which with".split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("queries", nargs="*")
    arguments = parser.parse_args()
    documents = json.loads((arguments.site / "search" / "search_index.json").read_text())["docs"]
    index, by_location = index_of(documents), {document["location"]: document for document in documents}
    for query in arguments.queries:
        print(query)
        for page, (score, title) in list(pages_found(index, by_location, query).items())[:5]:
            print(f"  {score:10.1f}  {page}: {title}")
    failed = 0
    for query, page, within in QUESTIONS if not arguments.queries else []:
        first = list(pages_found(index, by_location, query))[:NEAR]
        if page not in first[:within]:
            failed += 1
            print(f"search: '{query}' finds {', '.join(first) or 'nothing'}, not {page}{' first' if within == FIRST else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
