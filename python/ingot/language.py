"""Language models: :class:`LLM` writes and chats, :class:`Embedder` turns texts into vectors, :class:`LanguageModel` is a
module for training loops of one's own."""

import atexit
import json
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._structured import constrain
from ._tensor import asarray
from ._core import LanguageModel, Tensor, Tokenizer
from .display import module_html, table
from .errors import Error
from .weights import adapter_list

__all__ = ["LLM", "Completion", "Embedder", "LanguageModel", "Tokenizer"]


@dataclass
class Completion:
    """A text that was written.

    ``finish_reason`` is ``"stop"`` (an end token or stop string), ``"length"`` or ``"cancelled"``; ``logprobs`` holds
    ``(id, logprob, [(id, logprob), ...])`` for each token where they were asked for. Times are in seconds.
    """

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    finish_reason: str = "length"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    logprobs: list[Any] = field(default_factory=list)
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    _parse: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def parsed(self) -> Any:
        """The value of a text that had to be something: an instance of the pydantic model or type, what the JSON says, or
        the text itself for ``regex``, ``choice`` and ``grammar``. ValueError where the text was cut before its end."""
        if self._parse is None:
            raise ValueError("nothing was asked of the text: give json_schema, json_object, regex, choice or grammar")
        if self.finish_reason != "stop":
            raise ValueError(f"the text ended early ({self.finish_reason}): raise max_tokens, here after {len(self.tokens)} tokens")
        return self._parse(self.text)

    def __str__(self):
        return self.text


class Stream:
    """Pieces of one text as they are written: an iterator, and with ``async for`` an asynchronous one. A piece has one token, or
    those that came within some 10 ms.

    ``completion`` is complete once the iterator has ended. Leaving the loop early, or :meth:`cancel`, ends the request.
    """

    def __init__(self, running, parse=None):
        self._running = running
        self._error = None
        self.completion = Completion(prompt_tokens=running.prompt_tokens, _parse=parse)

    def _take(self):
        piece = self._running.poll()
        if piece is None:
            return None
        text, tokens, logprobs = piece
        self.completion.text += text
        self.completion.tokens += tokens
        self.completion.logprobs += logprobs
        return text

    def _ended(self):
        end = None
        if self._error is None:
            try:
                end = self._running.result()
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error
        if end is None:
            return False
        for name, value in end.items():
            setattr(self.completion, name, value)
        return True

    def __iter__(self):
        try:
            while True:
                self._running.wait()
                while (text := self._take()) is not None:
                    if text:
                        yield text
                if self._ended():
                    return
        finally:
            self.cancel()

    async def __aiter__(self):
        import asyncio  # a third of the package's import time

        loop = asyncio.get_running_loop()
        try:
            while True:
                ready = asyncio.Event()

                def wake(loop=loop, ready=ready):
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(ready.set)

                self._running.call_when_ready(wake)
                await ready.wait()
                while (text := self._take()) is not None:
                    if text:
                        yield text
                if self._ended():
                    return
        finally:
            self.cancel()

    def cancel(self):
        """Ends the request before its next token; nothing happens where it has ended."""
        self._running.cancel()

    def result(self) -> Completion:
        """Waits for the end; the :class:`Completion`."""
        while True:
            self._running.wait_for_end()
            self._take()
            if self._ended():
                return self.completion


# Ended before the interpreter is: a thread of C++ that calls Python afterwards would be stopped in the middle.
_open_models: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_models():
    for model in list(_open_models):
        model.close()
    if threading.active_count() > 1:  # daemon threads never give back what they hold: no leak of ours
        _core._set_leak_warnings(False)


def _logits_processor(functions):
    """One function of several, whose results may be any array, or nothing where they changed the tensor."""
    functions = list(functions) if isinstance(functions, (list, tuple)) else [functions]
    if not all(callable(function) for function in functions):
        raise TypeError("logits_processor: give a function (tokens, logits) -> logits, or a list of them")

    def process(tokens, logits):
        for function in functions:
            changed = function(tokens, logits)
            if changed is not None:
                logits = asarray(changed)
        return logits

    return process


class LLM:
    """A language model that writes text. Calls from several threads, and texts of one call, run in one batch.

    Args:
        model: a directory of Hugging Face's layout, a .gguf file, or a name on the Hub (``hf://org/name``).
        format: converts the weights first: ``"q8_0"``, ``"q4_k"``, ``"bf16"``...; as stored where it is not given.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        adapters: LoRA directories, or ``(directory, weight)``; several add up.
        context: tokens of a text at most; 0: the model's own limit.
        kv_cache: ``"f32"``, ``"bf16"``, ``"f16"`` or ``"i8"``.
        max_running: requests in one step at most; 0: no limit.
        kv_memory: bytes of keys and values at most; 0: no limit.
        prefix_cache: keeps the beginnings of finished texts for prompts that begin alike.

    >>> llm = ingot.LLM("model.gguf")
    >>> llm.generate("Once upon a time", max_tokens=32).text
    >>> llm.chat("What is a monad?").text
    >>> for piece in llm.chat("And a functor?", stream=True):
    ...     print(piece, end="", flush=True)
    """

    def __init__(self, model, *, format="", device="auto", adapters=(), context=0, kv_cache=None, max_running=0,
                 kv_memory=0, prefix_cache=True):
        self._model = _core._Model(
            str(model), format, device, adapter_list(adapters), context, kv_cache, max_running, kv_memory, prefix_cache
        )
        _open_models.add(self._model)
        self._opened, self._embedder = (str(model), format), None

    def _submit(self, prompt, logprobs, options, parse):
        ids = self._model.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return Stream(self._model.submit(ids, options, -1 if logprobs is None else int(logprobs)), parse)

    def _write(self, prompts, stream, logprobs, options):
        options, parse = constrain(options)
        if options.get("logits_processor") is not None:
            options = {**options, "logits_processor": _logits_processor(options["logits_processor"])}
        if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
            running = self._submit(prompts, logprobs, options, parse)
            return running if stream else running.result()
        if stream:
            return [self._submit(prompt, logprobs, options, parse) for prompt in prompts]
        started = []
        try:
            for prompt in prompts:
                started.append(self._submit(prompt, logprobs, options, parse))
            return [running.result() for running in started]
        except BaseException:
            for running in started:
                running.cancel()
            raise

    def generate(self, prompts, *, stream: bool = False, logprobs: int | None = None, **options) -> Any:
        """Continues a prompt, or each of a list: texts or lists of token ids.

        Returns a :class:`Completion` (a list of them for a list), or with ``stream=True`` a :class:`Stream`.

        Options: max_tokens (256), temperature, top_k, top_p, min_p, typical_p, repetition_penalty, presence_penalty,
        frequency_penalty, no_repeat_ngram_size, logit_bias ({id: bias}), stop (a text or several), bad_words, ignore_eos,
        min_tokens, seed, speculate, and the other samplers of ``ingot generate``. What is not given is as the model's
        files say. ``logprobs``: so many alternatives for each token.

        Structured output, one of these: ``json_schema`` (a pydantic model or any type that pydantic knows, a dict, or text),
        ``json_object=True``, ``regex``, ``choice`` (texts), ``grammar`` (GBNF or Lark). ``Completion.parsed`` has the value.

        ``logits_processor``: called before each draw as ``f(tokens, logits)``, with the ids so far, prompt included, and
        float32 [vocab]; it changes them or gives new ones back. Several run in order. An exception ends the request and
        leaves the call. All requests wait while it runs.
        """
        return self._write(prompts, stream, logprobs, options)

    def chat(self, messages, *, stream: bool = False, logprobs: int | None = None, tools=None, template=None, **options) -> Any:
        """Answers a conversation: a question, a list of ``{"role": ..., "content": ...}``, or a list of such lists.

        ``tools``: function descriptions for the model's chat template; ``template``: variables for it, such as
        ``{"enable_thinking": False}``. Otherwise as :meth:`generate`.
        """
        several = isinstance(messages, list) and messages and isinstance(messages[0], list)
        prompts = [self.apply_chat_template(m, tools=tools, template=template) for m in (messages if several else [messages])]
        ids = [self.tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts]
        return self._write(ids if several else ids[0], stream, logprobs, options)

    def apply_chat_template(self, messages, *, tools=None, template=None, add_generation_prompt: bool = True) -> str:
        """The text that the model reads for these messages."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self._model.render(json.dumps(messages), json.dumps(tools), json.dumps(template or {}), add_generation_prompt)

    def embed(self, texts, *, prompt_name: str = "", prompt: str | None = None, dimensions: int | None = None,
              normalize: bool = False) -> Tensor:
        """Sentence vectors [texts, dimension], as :meth:`Embedder.embed` makes them: with the pooling that the model's directory
        names, else the mean over the tokens. The first call opens the weights once more, in the model's format; as stored, both
        are one mapped file. Adapters count for nothing here.
        """
        if self._opened is None:
            raise Error("the model is closed")
        if self._embedder is None:
            self._embedder = Embedder(self._opened[0], format=self._opened[1], device=self.device)
        return self._embedder.embed(texts, prompt_name=prompt_name, prompt=prompt, dimensions=dimensions, normalize=normalize)

    def logits(self, tokens) -> Tensor:
        """Logits [tokens, vocab] of a text or of token ids, float32, one row for each token."""
        return self._model.logits(self.tokenizer.encode(tokens) if isinstance(tokens, str) else list(tokens))

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's :class:`Tokenizer`."""
        return self._model.tokenizer

    @property
    def context(self) -> int:
        """Tokens that a text may have, prompt included."""
        return self._model.context

    @property
    def model_type(self) -> str:
        """The family, as config.json names it: ``"llama"``."""
        return self._model.model_type

    @property
    def device(self) -> str:
        """Where the model is."""
        return self._model.device

    def _repr_html_(self):
        row = {"family": self.model_type, "device": self.device, "context": self.context, "vocabulary": self.tokenizer.vocab_size}
        return f"<b>LLM</b>{table([row])}"

    def close(self):
        """Cancels what runs and ends the thread; later calls are an error."""
        self._model.close()
        self._opened = self._embedder = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _language_model_html(self):
    return module_html(self, f"LanguageModel ({self.model_type}, {self.device})")


setattr(LanguageModel, "_repr_html_", _language_model_html)  # noqa: B010 -- as type checkers want it


class Embedder:
    """Texts to vectors whose scalar products say how near their meanings are: BERT and its like, sentence-transformers.

    >>> vectors = ingot.Embedder("model-directory").embed(["a cat", "a dog"])
    >>> vectors @ vectors.T
    """

    def __init__(self, model, *, format="", device="auto"):
        self._embedder = _core._Embedder.open(str(model), format, device)

    def embed(self, texts, *, prompt_name: str = "", prompt: str | None = None, dimensions: int | None = None,
              normalize: bool = False) -> Tensor:
        """A tensor [texts, dimension], float32; [dimension] for one text. Texts run in batches, without padding.

        ``prompt_name``: one of the model's prompts (:attr:`prompts`) to put before each text, by default its own; ``prompt``: a
        text instead. ``dimensions`` keeps the first so many, as Matryoshka models are used. ``normalize``: vectors of length 1,
        also where the model's files do not ask for them, and behind ``dimensions``.
        """
        one = isinstance(texts, str)
        vectors = self._embedder.embed([texts] if one else list(texts), prompt_name, prompt, dimensions, normalize)
        return vectors[0] if one else vectors

    @property
    def prompts(self) -> dict[str, str]:
        """What the model's files would have before a text, by name: ``{"query": "query: "}``."""
        return self._embedder.prompts

    @property
    def dimension(self) -> int:
        """Elements of a vector."""
        return self._embedder.dimension

    @property
    def max_length(self) -> int:
        """Tokens of a text that count; the rest is cut."""
        return self._embedder.max_length
