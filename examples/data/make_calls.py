#!/usr/bin/env python3
"""Writes calls.jsonl and calls_heldout.jsonl: chats that turn a request into one JSON call.

Requests of the held-out chats are worded with the same templates, but none is in calls.jsonl, and a third of their
names and places are in no chat of it.
"""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM = "Turn the request into one JSON call."
TRAIN, HELD_OUT = 420, 60

CITIES = ["Oslo", "Lima", "Kyoto", "Porto", "Cairo", "Denver", "Quito", "Turin", "Hanoi", "Leeds", "Accra", "Bergen", "Nairobi",
          "Gdansk", "Osaka", "Tunis", "Dublin", "Malmo", "Seville", "Perth", "Bogota", "Riga", "Ghent", "Split"]
NEW_CITIES = ["Zagreb", "Austin", "Kampala", "Nantes", "Jakarta"]
NAMES = ["Mia", "Omar", "Lena", "Raj", "Chloe", "Ivan", "Sofia", "Kofi", "Anna", "Diego", "Yuki", "Tom", "Nora", "Felix", "Amara",
         "Hugo", "Ines", "Paul", "Zoe", "Liam"]
NEW_NAMES = ["Olga", "Mateo", "Grace", "Ahmed"]
DAYS = ["today", "tomorrow", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
LABELS = ["pasta", "tea", "laundry", "rice", "nap", "bread", "eggs", "yoga", "homework", "pizza", "cake", "workout", "coffee", "break"]
ROOMS = ["kitchen", "bedroom", "garage", "hallway", "office", "bathroom", "living room", "attic", "basement", "nursery", "porch"]
COLOURS = ["red", "blue", "green", "warm white", "orange", "purple", "pink", "yellow"]
UNITS = [("miles", "km"), ("pounds", "kg"), ("feet", "meters"), ("cups", "liters"), ("inches", "cm"), ("gallons", "liters"),
         ("ounces", "grams"), ("yards", "meters")]
GENRES = ["jazz", "rock", "piano music", "folk", "lo-fi beats", "opera", "techno", "blues", "salsa", "metal", "country", "soul"]
NOTES = ["I am running late", "dinner is ready", "the train was cancelled", "call me back", "happy birthday", "I found your keys",
         "the meeting moved to noon", "see you at eight", "bring an umbrella", "the parcel arrived", "good luck", "lunch is on me"]
ITEMS = ["milk", "apples", "batteries", "soap", "olive oil", "bananas", "candles", "flour", "lemons", "paper towels", "honey", "nails"]


def weather(r, new):
    city, day = r.choice(NEW_CITIES if new else CITIES), r.choice(DAYS)
    when = day if day in ("today", "tomorrow") else "on " + day.capitalize()
    text = r.choice(["What's the weather in {c} {w}?", "Will it rain in {c} {w}?", "How warm will it be in {c} {w}?",
                     "Tell me the forecast for {c} {w}.", "Do I need a coat in {c} {w}?", "Is it going to be sunny {w} in {c}?"])
    return text.format(c=city, w=when), {"call": "weather", "city": city, "day": day}


def timer(r, new):
    minutes, label = r.randint(2, 59), r.choice(LABELS)
    text = r.choice(["Set a {l} timer for {m} minutes.", "Remind me about the {l} in {m} minutes.", "{m} minutes for the {l}, please.",
                     "Start a timer: {l}, {m} min.", "Give me {m} minutes for {l}.", "The {l} needs {m} minutes, start counting."])
    return text.format(l=label, m=minutes), {"call": "timer", "minutes": minutes, "label": label}


def light(r, new):
    room = r.choice(ROOMS)
    if r.random() < 0.5:
        state = r.choice(["on", "off"])
        text = r.choice(["Turn {s} the lights in the {r}.", "Switch the {r} light {s}.", "{r} lights {s}, please.", "I want the {r} light {s}."])
        text = text.format(s=state, r=room)
        return text[0].upper() + text[1:], {"call": "light", "room": room, "state": state}
    colour = r.choice(COLOURS)
    text = r.choice(["Make the {r} light {c}.", "Can the {r} be {c}?", "Set the {r} lamps to {c}.", "I'd like {c} light in the {r}."])
    return text.format(c=colour, r=room), {"call": "light", "room": room, "state": colour}


def convert(r, new):
    (source, target), amount = r.choice(UNITS), r.randint(2, 400)
    text = r.choice(["How many {t} are {a} {s}?", "Convert {a} {s} to {t}.", "What is {a} {s} in {t}?", "{a} {s} - how much is that in {t}?"])
    return text.format(a=amount, s=source, t=target), {"call": "convert", "amount": amount, "from": source, "to": target}


def play(r, new):
    genre, room = r.choice(GENRES), r.choice(ROOMS)
    text = r.choice(["Play some {g} in the {r}.", "I feel like {g}, in the {r} please.", "Put on {g} in the {r}.", "Could we have {g} in the {r}?"])
    return text.format(g=genre, r=room), {"call": "play", "music": genre, "room": room}


def message(r, new):
    name, note = r.choice(NEW_NAMES if new else NAMES), r.choice(NOTES)
    text = r.choice(["Tell {n} {t}.", "Text {n}: {t}.", "Send {n} a message saying {t}.", "Let {n} know: {t}.", "Write to {n} that {t}."])
    return text.format(n=name, t=note), {"call": "message", "to": name, "text": note}


def shopping(r, new):
    item, count = r.choice(ITEMS), r.randint(1, 12)
    text = r.choice(["Add {c} {i} to the shopping list.", "We need {c} {i}.", "Put {i} on my list, {c} of them.", "Buy {c} {i} next time.",
                     "Don't let me forget {c} {i}."])
    return text.format(i=item, c=count), {"call": "shopping", "item": item, "count": count}


def main():
    r = random.Random(7)
    makers, seen = [weather, timer, light, convert, play, message, shopping], set()

    def chats(count, held_out):
        rows = []
        while len(rows) < count:
            maker = makers[len(rows) % len(makers)]
            request, call = maker(r, held_out and r.random() < 0.33)
            if request in seen:
                continue
            seen.add(request)
            answer = json.dumps(call, ensure_ascii=False)
            rows.append({"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": request},
                                      {"role": "assistant", "content": answer}]})
        return rows

    for name, rows in (("calls.jsonl", chats(TRAIN, False)), ("calls_heldout.jsonl", chats(HELD_OUT, True))):
        (HERE / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


main()
