"""Waits for a server, fills a database, and compares two databases: `content.py wait|fill|same URL …`."""

import datetime
import hashlib
import sys
import time

import pymongo
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo.errors import ConnectionFailure


def client(url):
    return pymongo.MongoClient(url, directConnection=True, serverSelectionTimeoutMS=30_000, document_class=RawBSONDocument)


def wait(url):
    for _ in range(300):
        try:
            client(url).admin.command("ping")
            return
        except ConnectionFailure:
            time.sleep(0.1)
    sys.exit(f"no server at {url}")


def fill(url):
    """Stores documents of every type, and indexes of every kind that a file has."""
    shop = client(url).shop
    values = [
        1.5, float("inf"), -0.0, "text", "\N{SNOWMAN}", "", {}, {"a": {"b": [1, [2]]}}, [], [None], Binary(b"\x00\x01"),
        Binary(b"0123456789abcdef", 4), Binary(b"x", 128), ObjectId("64b7f3a2c1d2e3f405162738"), True, False,
        datetime.datetime(2026, 11, 29, 12, 30, 15, 123_000), datetime.datetime(1969, 7, 20), None, Regex("^a.*b$", "im"),
        DBRef("orders", 1), Code("f()"), Code("g(x)", {"x": 1}), 7, Timestamp(4, 2), Int64(7), Int64(-(2**63)),
        Decimal128("9.990"), Decimal128("NaN"), Decimal128("-0E+3"), MinKey(), MaxKey(),
    ]
    shop.values.insert_many([{"_id": position, "value": value} for position, value in enumerate(values)])
    shop.orders.insert_many([{"_id": ObjectId(), "number": n, "shop": n % 7, "tags": ["a", str(n % 3)], "z.z": n} for n in range(2_500)])
    shop.orders.create_index([("number", 1)], unique=True)
    shop.orders.create_index([("shop", 1), ("number", -1)], name="by shop")
    shop.orders.create_index("tags", sparse=True)
    shop.orders.create_index("shop", name="few", partialFilterExpression={"number": {"$gt": 2_000}})
    shop.values.create_index("value", name="expires", expireAfterSeconds=2**31 - 1)
    shop.orders.create_index([("shop", "hashed")])
    shop.create_collection("empty")
    shop["a name/with %2F"].insert_one({"_id": {"a": 1, "b": 2}})


def content(url, database):
    """Returns the definition of each collection with the number and a digest of its documents, in the order of `_id`."""
    db = client(url)[database]
    result = {}
    for name in sorted(db.list_collection_names()):
        indexes = sorted(repr(index) for index in db[name].list_indexes())
        digest, number = hashlib.sha256(), 0
        for document in db[name].find(sort=[("_id", 1)], batch_size=10_000):
            digest.update(document.raw)
            number += 1
        result[name] = (number, digest.hexdigest(), indexes)
    return result


def same(left_url, left_database, right_url, right_database):
    left, right = content(left_url, left_database), content(right_url, right_database)
    differing = [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
    for name in differing:
        print(f"{name} differs:\n  {left.get(name)}\n  {right.get(name)}", file=sys.stderr)
    if differing or not left:
        sys.exit(1)
    print(f"equal: {len(left)} collections, {sum(number for number, _, _ in left.values())} documents")


if __name__ == "__main__":
    {"wait": wait, "fill": fill, "same": same}[sys.argv[1]](*sys.argv[2:])
