#!/usr/bin/env python3
"""Checks the data in this folder and prints the counts (--brief: as in README.md). Exit status 1 on any fault."""
import collections, json, os, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))
faults = []
LANGS = ["en", "de", "fr", "es", "pt", "zh", "ja", "ar", "hi", "ru"]
STATES = ["first", "after_success", "after_failure", "after_change"]
WANTS = ["look", "change", "talk", "know", "impossible"]
DOMAINS = ["files", "commands", "calendar", "shop", "home", "database", "arithmetic", "weather/travel",
           "messages/mail", "notes", "music/media", "medical or legal lookup", "code repository", "robots or IoT",
           "science", "finance", "sport/games", "food/garden", "reference lookup", "town services"]
NEAR = ["cones", "loans", "rulers", "dosage", "kitchen", "sky", "genes", "openings", "homes", "woerter", "images",
        "pdf", "ping", "library", "species", "pendulum", "exchange", "trains", "chords", "sentencias", "recycling", "garden",
        "results", "atlas"]  # sets with one or two tools; half of their requests are near misses
FIELDS = ["id", "set", "language", "state", "request", "history", "call", "tool", "wants", "hard", "split"]
SCRIPT = {"zh": r"[\u4e00-\u9fff]", "ja": r"[\u3040-\u30ff\u4e00-\u9fff]", "ar": r"[\u0600-\u06ff]",
          "hi": r"[\u0900-\u097f]", "ru": r"[\u0400-\u04ff]"}
KIND = {"string": str, "boolean": bool, "object": dict, "array": list}


def need(ok, where, what):
    if not ok:
        faults.append(f"{where}: {what}")


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [json.loads(l) for l in f]


def fits(v, schema):
    k = schema["type"]
    if k == "integer":
        return type(v) is int
    if k == "number":
        return type(v) in (int, float)
    if not isinstance(v, KIND[k]):
        return False
    return ("enum" not in schema or v in schema["enum"]) and \
        (k != "array" or all(fits(x, schema["items"]) for x in v))


def stems(text):
    """Content words cut to five letters; camelCase and snake_case are split."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
    stop = set("the a an of or its for to in on and is are with by one all off out at between two under can "
               "that what who how into from it as be not was this when your you used".split())
    return {w[:5].rstrip("s") for w in re.findall(r"[a-z]+", text) if len(w) > 2 and w not in stop}


# Tool sets
with open(os.path.join(HERE, "toolsets.json"), encoding="utf-8") as f:
    sets_list = json.load(f)
sets = {s["name"]: s for s in sets_list}
need(len(sets) == len(sets_list) >= 46, "toolsets", "names not unique or fewer than 46 sets")
for s in sets_list:
    least, most = (1, 2) if s["name"] in NEAR else (2, 8)
    need(least <= len(s["tools"]) <= most, s["name"], f"{least} to {most} tools expected")
    need(s["split"] in ("fit", "check"), s["name"], "split")
    need(all(d in DOMAINS for d in s["domain"].split("+")), s["name"], "unknown domain")
    need(len({t["name"] for t in s["tools"]}) == len(s["tools"]), s["name"], "tool names not unique")
    for t in s["tools"]:
        p = t["parameters"]
        need(t["effect"] in ("reads", "changes") and t["description"], t["name"], "effect or description")
        if "example" in t:
            schema, given = t["parameters"], t["example"]["arguments"]
            need(t["example"]["request"], t["name"], "example without a request")
            need(set(given) <= set(schema["properties"]), t["name"], "example with an unknown parameter")
            need(set(schema.get("required", [])) <= set(given), t["name"], "example without a required parameter")
        need(p["type"] == "object" and set(p["required"]) <= set(p["properties"]), t["name"], "schema")
for d in DOMAINS:
    for split in ("fit", "check"):
        need(any(d in s["domain"].split("+") and s["split"] == split for s in sets_list), d, f"no {split} set")

# Decisions
rows = lines("requests.jsonl")
ids, seen = set(), set()
for r in rows:
    i = r["id"]
    need([k for k in r if k != "tools"] == FIELDS, i, "fields")
    need(i not in ids, i, "id twice"); ids.add(i)
    key = (r["set"], re.sub(r"\W+", " ", r["request"].lower()).strip(), json.dumps(r["history"]))
    need(key not in seen, i, "duplicate"); seen.add(key)
    if r["set"] not in sets:
        faults.append(f"{i}: no such set"); continue
    s = sets[r["set"]]; tools = {t["name"]: t for t in s["tools"]}
    need(r["split"] == s["split"], i, "split differs from its set")
    need(r["language"] in LANGS and r["state"] in STATES and r["wants"] in WANTS, i, "language, state or wants")
    need(r["request"] == r["request"].strip() != "", i, "request")
    if r["language"] in SCRIPT:
        need(re.search(SCRIPT[r["language"]], r["request"]), i, "script does not fit the language")
    else:
        need(not any(re.search(x, r["request"]) for x in SCRIPT.values()), i, "script does not fit the language")
    if r["call"]:
        named = r.get("tools", [r["tool"]])
        need(named[0] == r["tool"] and all(n in tools for n in named), i, "tool not in the set")
        need(r["wants"] in ("look", "change"), i, "wants of a call")
        if r["state"] == "first" and r["wants"] == "look":
            # a shell command may only look, though the tool counts as a changing one
            need(any(tools[n]["effect"] == "reads" or n == "execCommand" for n in named if n in tools), i,
                 "a look by a changing tool")
        if r["state"] == "first" and r["wants"] == "change":
            need(any(tools[n]["effect"] == "changes" for n in named if n in tools), i, "a change by a reading tool")
    else:
        need(r["tool"] is None and "tools" not in r, i, "tool named without a call")
        if r["state"] == "first":
            need(r["wants"] in ("talk", "know", "impossible"), i, "wants of an answer")
    need((r["state"] == "first") == (not r["history"]), i, "history does not fit the state")
    for h in r["history"]:
        need(list(h) == ["tool", "arguments", "result", "is_error"] and h["result"], i, "step fields")
        if h["tool"] not in tools:
            faults.append(f"{i}: step with unknown tool"); continue
        p = tools[h["tool"]]["parameters"]
        need(set(p["required"]) <= set(h["arguments"]), i, "required argument missing")
        for k, v in h["arguments"].items():
            need(k in p["properties"] and fits(v, p["properties"][k]), i, f"argument {k}")
    if r["history"]:
        h, last = r["history"], r["history"][-1]
        if r["state"] == "after_failure":
            need(any(x["is_error"] for x in h), i, "no failed step")
        else:
            need(not any(x["is_error"] for x in h), i, "failed step")
            changed = any(tools[x["tool"]]["effect"] == "changes" for x in h if x["tool"] in tools)
            if r["state"] == "after_change":
                need(changed, i, "no change in the history")
            elif last["tool"] != "execCommand":
                need(not changed, i, "change in the history of after_success")
    # Hard lines in English can be checked by their words (first requests, tools named in English).
    if r["hard"] and r["language"] == "en" and not any(re.search(r"[^\x00-\x7f]|licht|tienda|producto", json.dumps(t, ensure_ascii=False)) for t in s["tools"]):
        if r["call"]:
            w = stems(" ".join(n + " " + tools[n]["description"] for n in r.get("tools", [r["tool"]])))
            need(not stems(r["request"]) & w, i, f"hard call shares {stems(r['request']) & w}: {r['request']}")
        else:
            w = stems(" ".join(t["name"] + " " + t["description"] for t in s["tools"]))
            need(stems(r["request"]) & w, i, f"hard answer shares no word: {r['request']}")

# Near misses: as many as calls in each of these sets, and no talk among them.
for n in NEAR:
    x = [r for r in rows if r["set"] == n]
    answers = [r["wants"] for r in x if not r["call"]]
    need(n in sets and len(x) >= 6 and len(x) == 2 * len(answers), n, "six lines expected, half of them near misses")
    need(all(r["state"] == "first" for r in x), n, "a history")
    need(set(answers) <= {"know", "impossible"}, n, "a near miss is know or impossible")
near = [r["wants"] for r in rows if r["set"] in NEAR and not r["call"]]
need(2 * near.count("know") >= len(near), "near misses", "fewer than half are know")

lang = collections.Counter(r["language"] for r in rows)
need(len(rows) >= 890, "decision", "fewer than 890 lines")
need(sum(n >= 35 for l, n in lang.items() if l != "en") >= 8, "decision", "eight other languages with 35 lines")
for l in LANGS:
    for split in ("fit", "check"):
        for c in (True, False):
            need(any(r["language"] == l and r["split"] == split and r["call"] == c for r in rows), l, f"none in {split}")
used = {n for r in rows if r["call"] for n in [(r["set"], x) for x in r.get("tools", [r["tool"]])]}
unused = [f"{s['name']}.{t['name']}" for s in sets_list for t in s["tools"] if (s["name"], t["name"]) not in used]

# The two small files
small = {}
for name, n, langs in (("impossible.jsonl", 30, 6), ("free.jsonl", 16, 8)):
    x = small[name] = lines(name)
    need(len(x) == n, name, f"{len(x)} lines, expected {n}")
    need(len({r["language"] for r in x}) >= langs, name, "languages")
    need(len({r["request"] for r in x}) == n, name, "duplicate")
    need(all(list(r) == ["language", "request"] for r in x), name, "fields")


def brief():
    """The counts as the lines of the README: all (calls/answers)."""
    def row(key, names):
        return ", ".join(f"{v} {len(x)} ({sum(r['call'] for r in x)}/{sum(not r['call'] for r in x)})"
                         for v in names for x in [[r for r in rows if key(r) == v]])
    print("Lines (calls/answers):", row(lambda r: "all", ["all"]) + ". By split:", row(lambda r: r["split"], ["fit", "check"]) + ".")
    print("By language:", row(lambda r: r["language"], LANGS) + ".")
    print("By state:", row(lambda r: r["state"], STATES) + ".")
    print("By wants:", row(lambda r: r["wants"], WANTS) + ".")


def table(title, key, names):
    print(f"{title:14} {'all':>5} {'call':>5} {'answer':>6} {'fit':>5} {'check':>5}")
    for v in names:
        x = [r for r in rows if key(r) == v]
        c = sum(r["call"] for r in x); f = sum(r["split"] == "fit" for r in x)
        print(f"{v:14} {len(x):5} {c:5} {len(x) - c:6} {f:5} {len(x) - f:5}")
    print()


for f in faults:
    print("FAULT", f)
if "--brief" in sys.argv:
    brief(); sys.exit(bool(faults))
print(f"tool sets {len(sets)} (fit {sum(s['split'] == 'fit' for s in sets_list)}), tools {sum(len(s['tools']) for s in sets_list)}\n")
table("all", lambda r: "lines", ["lines"])
table("language", lambda r: r["language"], LANGS)
table("state", lambda r: r["state"], STATES)
table("wants", lambda r: r["wants"], WANTS)
table("set", lambda r: r["set"], list(sets))
first = [r for r in rows if r["state"] == "first" and r["call"]]
print("first calls:", len(first), "of them changes:", sum(r["wants"] == "change" for r in first))
print("hard calls:", sum(r["hard"] and r["call"] for r in rows), "hard answers:", sum(r["hard"] and not r["call"] for r in rows))
print("lines with two right tools:", sum("tools" in r for r in rows))
print("tools never right in a line:", ", ".join(unused) or "none")
for name, x in small.items():
    print(f"{name}: {len(x)} lines,", dict(collections.Counter(r["language"] for r in x)))
sys.exit(bool(faults))
