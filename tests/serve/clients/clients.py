#!/usr/bin/env python3
"""Asks a running `ingot serve` through the public Python clients, streaming and not.

    ingot serve MODEL --port 8000 &
    python tests/serve/clients/clients.py http://127.0.0.1:8000 [API_KEY]

A client that is not installed is skipped, visibly. Exit code: 0 where nothing failed.
"""
import importlib
import sys
import traceback

MESSAGES = [{"role": "user", "content": "Name three colours."}]


def openai_client(url, key):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
    model = client.models.list().data[0].id
    settings = dict(model=model, messages=MESSAGES, max_tokens=12, temperature=0)
    whole = client.chat.completions.create(**settings, logprobs=True, top_logprobs=2)
    text = whole.choices[0].message.content
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.completion_tokens > 0 and len(whole.choices[0].logprobs.content) > 0

    chunks = list(client.chat.completions.create(**settings, stream=True, stream_options={"include_usage": True}))
    joined = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert joined == text, (joined, text)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens

    several = client.chat.completions.create(**{**settings, "temperature": 1.5}, n=3, seed=5)
    assert len(several.choices) == 3
    again = client.chat.completions.create(**{**settings, "temperature": 1.5}, n=3, seed=5)
    assert [c.message.content for c in several.choices] == [c.message.content for c in again.choices]

    completion = client.completions.create(model=model, prompt=["One, two,", "A, B,"], max_tokens=6, temperature=0, logprobs=1)
    assert len(completion.choices) == 2 and len(completion.choices[0].logprobs.tokens) > 0
    pieces = client.completions.create(model=model, prompt="One, two,", max_tokens=6, temperature=0, stream=True)
    assert "".join(p.choices[0].text for p in pieces) == completion.choices[0].text

    tools = [{"type": "function", "function": {"name": "weather", "description": "Weather of a city",
                                                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
    client.chat.completions.create(**settings, tools=tools)

    for kind, wrong in ((openai.NotFoundError, dict(model="no-such-model")), (openai.BadRequestError, dict(temperature=-1)),
                        (openai.BadRequestError, dict(response_format={"type": "yaml"}))):
        try:
            client.chat.completions.create(**{**settings, **wrong})
        except kind as error:
            assert error.body["message"], error
        else:
            raise AssertionError(f"{wrong} was taken")

    structured(client, model, tools)

    stream = client.chat.completions.create(**{**settings, "max_tokens": 500}, stream=True)
    for _ in stream:
        break
    stream.close()  # the server cancels it


def structured(client, model, tools):
    """JSON by schema through pydantic, forced tools, and vLLM's extra fields."""
    import json

    import pydantic

    class Colour(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        name: str = pydantic.Field(max_length=12)
        warm: bool
        shade: int = pydantic.Field(ge=0, le=9)

    settings = dict(model=model, messages=MESSAGES, max_tokens=300, temperature=1, seed=3)
    parsed = client.chat.completions.parse(**settings, response_format=Colour).choices[0].message.parsed
    assert isinstance(parsed, Colour), parsed
    forced = client.chat.completions.create(**settings, tools=tools, tool_choice={"type": "function", "function": {"name": "weather"}},
                                            extra_body={"bad_words": []})
    if forced.choices[0].finish_reason == "tool_calls":
        call = forced.choices[0].message.tool_calls[0].function
        assert call.name == "weather" and isinstance(json.loads(call.arguments), dict)
    chosen = client.chat.completions.create(**settings, extra_body={"structured_outputs": {"choice": ["warm", "cold"]}})
    assert chosen.choices[0].message.content in ("warm", "cold")
    responses(client, model, Colour, tools)


def responses(client, model, schema, tools):
    """The responses API: whole, streamed, by a schema, with a tool."""
    settings = dict(model=model, input="Name three colours.", max_output_tokens=12, temperature=0)
    whole = client.responses.create(**settings, instructions="Be brief.")
    events = list(client.responses.create(**settings, instructions="Be brief.", stream=True))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens
    settings = {**settings, "max_output_tokens": 300, "extra_body": {"seed": 3}}
    parsed = client.responses.parse(**settings, text_format=schema)
    assert parsed.status == "incomplete" or isinstance(parsed.output_parsed, schema)
    function = {"type": "function", **tools[0]["function"], "strict": False}
    called = client.responses.create(**settings, tools=[function], tool_choice={"type": "function", "name": "weather"})
    if called.status == "completed":
        assert called.output[-1].type == "function_call" and called.output[-1].name == "weather"
        history = [{"role": "user", "content": "Weather?"}, called.output[-1].model_dump(),
                   {"type": "function_call_output", "call_id": called.output[-1].call_id, "output": "sunny"}]
        assert client.responses.create(**{**settings, "input": history, "max_output_tokens": 4}).object == "response"


def instructor_client(url, key):
    import instructor
    import openai
    import pydantic

    class Answer(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        warm: bool
        shade: int = pydantic.Field(ge=0, le=9)

    client = instructor.from_openai(openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0), mode=instructor.Mode.JSON_SCHEMA)
    made = client.chat.completions.create(model=_first_model(url, key), messages=MESSAGES, max_tokens=200, response_model=Answer, max_retries=0)
    assert 0 <= made.shade <= 9


def anthropic_client(url, key):
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
    model = _first_model(url, key)
    settings = dict(model=model, messages=MESSAGES, max_tokens=12, system="Be brief.", extra_body={"temperature": 0})
    whole = client.messages.create(**settings)
    assert whole.type == "message" and whole.content[0].type == "text" and whole.usage.output_tokens > 0
    with client.messages.stream(**settings) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().stop_reason == whole.stop_reason
    assert text == whole.content[0].text, (text, whole.content[0].text)
    count = client.messages.count_tokens(model=model, messages=MESSAGES, system="Be brief.")
    assert count.input_tokens > 0
    try:
        client.messages.create(**{**settings, "model": "no-such-model"})
    except anthropic.NotFoundError:
        pass
    else:
        raise AssertionError("an unknown model was taken")


def ollama_client(url, key):
    import ollama

    client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})
    model = client.list().models[0].model
    options = {"temperature": 0, "num_predict": 12}
    whole = client.chat(model=model, messages=MESSAGES, options=options)
    text = "".join(part.message.content for part in client.chat(model=model, messages=MESSAGES, options=options, stream=True))
    assert whole.message.content == text and whole.eval_count > 0
    written = client.generate(model=model, prompt="Name three colours.", options=options)
    assert written.done and written.response == text
    try:
        client.chat(model="no-such-model", messages=MESSAGES)
    except ollama.ResponseError as error:
        assert error.status_code == 404
    else:
        raise AssertionError("an unknown model was taken")


def _first_model(url, key):
    import json
    import urllib.request

    request = urllib.request.Request(url + "/v1/models", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["data"][0]["id"]


def main():
    url = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    key = sys.argv[2] if len(sys.argv) > 2 else "none"
    failed = 0
    for package, check in (("openai", openai_client), ("anthropic", anthropic_client), ("ollama", ollama_client),
                           ("instructor", instructor_client)):
        try:
            importlib.import_module(package)
        except ImportError:
            print(f"{package}: skipped, it is not installed")
            continue
        try:
            check(url, key)
            print(f"{package}: passed")
        except Exception:
            failed += 1
            print(f"{package}: FAILED")
            traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
