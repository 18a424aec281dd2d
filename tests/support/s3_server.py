#!/usr/bin/env python3
"""An S3 server (moto) for tests, which checks every signature. Needs the Python package moto[server] 5.2.5.

    s3_server.py DIRECTORY   serves DIRECTORY's files as s3://models/<path>; prints "ENDPOINT ACCESS_KEY SECRET_KEY",
                             and serves until its standard input ends. Without moto: exit code 77.
"""

import json
import logging
import os
import sys
from pathlib import Path

try:
    import boto3
    from botocore.config import Config
    from moto.server import ThreadedMotoServer
except ImportError:
    sys.exit(77)

os.environ.update(AWS_ACCESS_KEY_ID="setup", AWS_SECRET_ACCESS_KEY="setup", AWS_DEFAULT_REGION="us-east-1")
for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
    os.environ.pop(name, None)
logging.getLogger("werkzeug").setLevel(logging.ERROR)

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://127.0.0.1:%d" % server.get_host_and_port()[1]

iam = boto3.client("iam", endpoint_url=endpoint)
iam.create_user(UserName="tester")
key = iam.create_access_key(UserName="tester")["AccessKey"]
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(policy))
s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
s3.create_bucket(Bucket="models")
root = Path(sys.argv[1])
for path in sorted(root.rglob("*")):
    if path.is_file():
        s3.put_object(Bucket="models", Key=str(path.relative_to(root)), Body=path.read_bytes())

# From here on, who may do what is checked, and with it the signature.
import requests  # noqa: E402

requests.post(endpoint + "/moto-api/reset-auth", data=b"0").raise_for_status()
print(endpoint, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
