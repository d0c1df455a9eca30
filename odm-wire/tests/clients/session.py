"""An ordinary session of pymongo. Prints one line for each step, which `run` compares with the lines of a real server."""

import sys
import threading
import time

import pymongo
from bson import Decimal128, Int64, ObjectId, Regex, json_util
from pymongo.errors import OperationFailure, PyMongoError

client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=10_000)
db = client.get_database("odm_clients_pymongo")


def show(step, value):
    print(step, json_util.dumps(value, sort_keys=True), flush=True)


def error(step, call):
    try:
        show(step, call())
    except OperationFailure as failure:
        details = failure.details or {}
        kept = {name: details.get(name) for name in ("code", "codeName", "keyPattern", "keyValue")}
        show(step, {"error": type(failure).__name__, **kept, "labels": details.get("errorLabels")})
    except PyMongoError as failure:
        show(step, {"error": type(failure).__name__})


client.drop_database(db.name)
people = db.people
show("insert", people.insert_many([{"_id": n, "n": n % 7, "name": f"name {n}"} for n in range(500)]).inserted_ids[-1])
types = {"_id": "types", "decimal": Decimal128("1.50"), "long": Int64(7), "id": ObjectId("0" * 24), "bytes": b"ab",
         "pattern": Regex("^a", "i"), "nested": {"a": [1, {"b": None}]}, "float": 1.5, "flag": True}
people.insert_one(types)
show("types", people.find_one({"_id": "types"}))
show("find", list(people.find({"n": 3}, {"name": 1}).sort("_id", -1).skip(2).limit(3)))
show("batches", sum(1 for _ in people.find(batch_size=3)))
show("count", people.count_documents({"n": {"$lt": 3}}))
show("estimate", people.estimated_document_count())
show("distinct", people.distinct("n"))
show("update", people.update_many({"n": 3}, {"$set": {"x": 1}, "$inc": {"n": 10}}).modified_count)
show("replace", people.replace_one({"_id": 1}, {"a": 1}).modified_count)
show("upsert", people.update_one({"_id": "new"}, {"$push": {"tags": "a"}}, upsert=True).upserted_id)
show("pipeline update", people.update_one({"_id": 2}, [{"$set": {"sum": {"$add": ["$n", 1]}}}]).modified_count)
show("array filters", people.update_one({"_id": "new"}, {"$set": {"tags.$[t]": "b"}}, array_filters=[{"t": "a"}]).modified_count)
show("modify", people.find_one_and_update({"_id": "new"}, {"$push": {"tags": "c"}}, return_document=True))
show("remove", people.find_one_and_delete({"_id": "new"}))
bulk = people.bulk_write([
    pymongo.InsertOne({"_id": "b1"}), pymongo.UpdateOne({"_id": "b1"}, {"$set": {"a": 1}}),
    pymongo.UpdateOne({"_id": "b2"}, {"$set": {"a": 1}}, upsert=True), pymongo.DeleteMany({"_id": {"$in": ["b1", "b2"]}}),
])
show("bulk", {name: value for name, value in bulk.bulk_api_result.items() if name != "writeConcernErrors"})
error("duplicate", lambda: people.insert_one({"_id": 1}))
error("unordered", lambda: people.insert_many([{"_id": 1}, {"_id": "free"}], ordered=False))
error("operator", lambda: list(people.find({"$frob": 1})))
error("command", lambda: db.command("frobnicate"))
show("parameter", client.admin.command("getParameter", 1, enableTestCommands=1)["enableTestCommands"])
show("index", people.create_index([("n", 1), ("name", -1)], name="by_n"))
show("unique", people.create_index("email", unique=True, partialFilterExpression={"email": {"$exists": True}}))
show("indexes", people.index_information())
people.insert_one({"_id": "e", "email": "a"})
error("unique key", lambda: people.insert_one({"email": "a"}))
people.drop_index("by_n")
error("no index", lambda: people.drop_index("by_n"))
show("aggregate", list(people.aggregate([{"$group": {"_id": "$n", "count": {"$sum": 1}}}, {"$sort": {"_id": 1}}])))
db.names.insert_many([{"_id": n, "text": str(n)} for n in range(7)])
lookup = {"$lookup": {"from": "names", "localField": "n", "foreignField": "_id", "as": "names"}}
show("lookup", list(people.aggregate([{"$match": {"_id": 4}}, lookup])))
show("collections", sorted(db.list_collection_names()))
show("databases", db.name in client.list_database_names())

with client.start_session() as session:
    def transfer(session):
        people.update_one({"_id": 5}, {"$inc": {"n": -1}}, session=session)
        people.update_one({"_id": 6}, {"$inc": {"n": 1}}, session=session)
        return people.count_documents({"n": {"$gte": 0}}, session=session)

    show("transaction", session.with_transaction(transfer))
    session.start_transaction()
    people.delete_many({}, session=session)
    show("outside", people.count_documents({}))
    session.abort_transaction()
    show("aborted", people.count_documents({}))
    session.start_transaction()
    error("error in transaction", lambda: people.insert_one({"_id": 5}, session=session))
    error("after the error", lambda: people.find_one({}, session=session))
    session.abort_transaction()
    with client.start_session() as other:
        session.start_transaction()
        other.start_transaction()
        people.find_one({"_id": 7}, session=session)
        people.update_one({"_id": 7}, {"$set": {"a": 1}}, session=other)
        error("conflict", lambda: people.update_one({"_id": 7}, {"$set": {"a": 2}}, session=session))
        other.commit_transaction()
        session.abort_transaction()

with db.events.watch([{"$match": {"operationType": {"$in": ["insert", "update", "delete"]}}}], full_document="updateLookup") as stream:
    def write():
        time.sleep(0.2)
        db.events.insert_one({"_id": 1, "a": 1})
        db.events.update_one({"_id": 1}, {"$set": {"b": 2}, "$unset": {"a": ""}})
        db.events.delete_one({"_id": 1})

    writer = threading.Thread(target=write)
    writer.start()
    events = [next(stream) for _ in range(3)]
    writer.join()
kept = ("operationType", "ns", "documentKey", "fullDocument", "updateDescription")
for event in events:
    show("event", {name: event[name] for name in kept if name in event})
with db.events.watch(resume_after=events[0]["_id"]) as stream:
    show("resumed", next(stream)["operationType"])
client.drop_database(db.name)
show("dropped", db.list_collection_names())
