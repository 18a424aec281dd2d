#!/usr/bin/env python3
"""Has Python's jsonschema say whether texts satisfy the schemas they were drawn for.

    INGOT_SCHEMA_SAMPLES=samples.jsonl build/tests/grammar_tests --gtest_filter='JsonSchemaProperty.*'
    python tests/grammar/validate_samples.py samples.jsonl      # needs jsonschema 4

By hand: the suite has a validator of its own. Exit code: 0 where every text is valid.
"""
import json
import sys

import jsonschema


def main():
    total = wrong = 0
    for line in open(sys.argv[1], encoding="utf-8"):
        sample = json.loads(line)
        validator = jsonschema.Draft202012Validator(sample["schema"], format_checker=jsonschema.FormatChecker())
        total += 1
        for error in validator.iter_errors(json.loads(sample["text"])):
            wrong += 1
            print(f"{sample['text']}\n  {error.json_path}: {error.message}\n  {json.dumps(sample['schema'])}")
            break
    print(f"{total} texts, {wrong} not valid")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
