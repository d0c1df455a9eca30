//! Collations of operations, on the server and on a real MongoDB.

use bson::{Bson, Document, doc};

use super::comparison::compare_servers;

fn commands() -> Vec<Document> {
    // Two ids are equal under the collation.
    let order = || doc! { "n": 1, "_id": 1, "a": 1 };
    let in_order = || doc! { "$sort": order() };
    let caseless = || doc! { "locale": "en", "strength": 2 };
    let find = |filter: Document, collation: Document| doc! { "find": "c", "filter": filter, "sort": order(), "collation": collation };
    let aggregate = |pipeline: Vec<Document>| doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {}, "collation": caseless() };
    let expression = |expression: Document| {
        aggregate(vec![in_order(), doc! { "$project": { "x": expression } }])
    };
    let merge_ids = |merge: Document| doc! { "aggregate": "ids", "pipeline": [{ "$sort": { "_id": 1 } }, { "$merge": merge }], "cursor": {}, "collation": caseless() };
    let update = |filter: Document, update: Document| {
        let statement = doc! { "q": filter, "u": update, "multi": true, "collation": caseless() };
        doc! { "update": "c", "updates": [statement] }
    };
    let texts = [
        "b", "A", "a", "B", "c", "á", "a10", "a9", "co-op", "coop", "",
    ];
    let documents = texts.into_iter().zip(1..).map(|(text, id)| {
        doc! { "_id": id, "a": text, "n": id, "list": [text, id, text.to_uppercase()], "inner": { "a": text, "b": [text] } }
    });
    let mut documents: Vec<_> = documents.collect();
    documents.push(doc! { "_id": "Text", "a": 7 });
    documents.push(doc! { "_id": "text", "a": [] });
    documents.push(doc! { "_id": null, "a": { "a": "A" } });
    let filters = || {
        vec![
            doc! { "a": "a" },
            doc! { "a": { "$ne": "a" } },
            doc! { "a": { "$gt": "a", "$lt": "c" } },
            doc! { "a": { "$lte": "B" } },
            doc! { "a": { "$in": ["A", "C", "\u{c1}"] } },
            doc! { "a": { "$in": ["A", { "a": "a" }] } },
            doc! { "a": { "$nin": ["A", "C"] } },
            doc! { "a": { "$not": { "$gte": "B" } } },
            doc! { "list": "A" },
            doc! { "list": { "$all": ["B", "b"] } },
            doc! { "list": { "$elemMatch": { "$gt": "B", "$lt": "D" } } },
            doc! { "list": ["B", 1, "b"] },
            doc! { "inner": { "a": "A", "b": ["A"] } },
            doc! { "inner": { "A": "a" } },
            doc! { "inner.a": { "$regex": "^A" } },
            doc! { "_id": "TEXT" },
            doc! { "_id": { "$in": ["TEXT", 3] } },
            doc! { "$or": [{ "a": "B" }, { "n": 3 }] },
            doc! { "$or": [{ "a": "B" }, { "a": "A" }] },
            doc! { "$expr": { "$eq": ["$a", "A"] } },
            doc! { "a": { "$gte": { "a": "a" } } },
        ]
    };
    let mut commands = vec![doc! { "insert": "c", "documents": documents }];
    let indexes = [
        None,
        Some(doc! { "key": { "a": 1 }, "name": "simple" }),
        Some(doc! { "key": { "a": 1 }, "name": "caseless", "collation": caseless() }),
    ];
    for index in indexes {
        commands.extend(index.map(|index| doc! { "createIndexes": "c", "indexes": [index] }));
        for filter in filters() {
            commands.push(find(filter.clone(), caseless()));
            commands.push(find(filter.clone(), doc! { "locale": "en", "strength": 1 }));
            commands.push(doc! { "count": "c", "query": filter, "collation": caseless() });
        }
        for collation in [
            caseless(),
            doc! { "locale": "en" },
            doc! { "locale": "en", "numericOrdering": true },
            doc! { "locale": "en", "caseFirst": "upper" },
            doc! { "locale": "en", "alternate": "shifted", "strength": 2 },
            doc! { "locale": "sv", "strength": 1, "caseLevel": true },
            doc! { "locale": "simple" },
            doc! {},
        ] {
            commands.push(
                doc! { "find": "c", "sort": { "a": 1, "_id": 1 }, "collation": collation.clone() },
            );
            commands.push(doc! { "find": "c", "sort": { "a": -1, "_id": 1 }, "filter": { "a": { "$gt": "a" } }, "collation": collation });
        }
    }
    commands.extend([
        doc! { "dropIndexes": "c", "index": "*" },
        doc! { "distinct": "c", "key": "a", "query": { "a": { "$lte": "B" } }, "collation": caseless() },
        aggregate(vec![doc! { "$match": { "a": "A" } }, doc! { "$sort": { "_id": 1 } }]),
        aggregate(vec![
            doc! { "$sort": { "_id": 1 } },
            doc! { "$group": { "_id": "$a", "n": { "$sum": 1 }, "max": { "$max": { "$toUpper": "$inner.a" } }, "min": { "$min": { "$toUpper": "$inner.a" } } } },
            doc! { "$sort": { "_id": 1 } },
        ]),
        aggregate(vec![
            doc! { "$match": { "a": { "$type": "string" } } },
            doc! { "$bucket": { "groupBy": "$a", "boundaries": ["", "A", "b", "z"] } },
        ]),
        aggregate(vec![
            in_order(),
            doc! { "$lookup": { "from": "c", "localField": "a", "foreignField": "inner.a", "as": "x" } },
            doc! { "$project": { "n": { "$size": "$x" } } },
        ]),
        aggregate(vec![
            in_order(),
            doc! { "$lookup": { "from": "c", "let": { "a": "$a" }, "pipeline": [{ "$match": { "$expr": { "$eq": ["$a", "$$a"] } } }], "as": "x" } },
            doc! { "$project": { "n": { "$size": "$x" } } },
        ]),
        expression(doc! { "$cmp": ["$a", "A"] }),
        expression(doc! { "$gt": ["$a", "B"] }),
        expression(doc! { "$ne": ["$inner", { "a": "A", "b": ["A"] }] }),
        expression(doc! { "$in": ["B", "$inner.b"] }).with_texts_only(),
        expression(doc! { "$indexOfArray": [["x", "A"], "$a"] }),
        expression(doc! { "$setUnion": [["X", "y"], ["x"]] }),
        expression(doc! { "$setIntersection": [["X", "y"], ["x", "Y", "Z"]] }),
        expression(doc! { "$setDifference": [["X", "y"], ["x"]] }),
        expression(doc! { "$setEquals": [["X", "y"], ["x", "Y"]] }),
        expression(doc! { "$setIsSubset": [["X"], ["x", "Y"]] }),
        expression(doc! { "$max": ["$a", "AA"] }),
        expression(doc! { "$min": ["$a", "AA"] }),
        expression(doc! { "$maxN": { "n": 2, "input": ["a", "C", "b"] } }),
        expression(doc! { "$sortArray": { "input": ["b", "A", "a", "C"], "sortBy": 1 } }),
        expression(doc! { "$sortArray": { "input": [{ "k": "b" }, { "k": "A" }], "sortBy": { "k": 1 } } }),
        expression(doc! { "$strcasecmp": ["\u{e1}", "$a"] }).with_texts_only(),
        expression(doc! { "$switch": { "branches": [{ "case": { "$eq": ["$a", "A"] }, "then": 1 }], "default": 2 } }),
        expression(doc! { "$filter": { "input": ["a", "B"], "cond": { "$eq": ["$$this", "A"] } } }),
        doc! { "find": "c", "projection": { "list": { "$elemMatch": { "$eq": "B" } } }, "sort": order(), "collation": caseless() },
        doc! { "find": "c", "filter": { "list": "B" }, "projection": { "list.$": 1 }, "sort": order(), "collation": caseless() },
        update(doc! { "a": "A" }, doc! { "$addToSet": { "list": { "$each": ["X", "x", "A"] } } }),
        update(doc! { "a": "A" }, doc! { "$pull": { "list": "x" } }),
        update(doc! { "a": "B" }, doc! { "$pullAll": { "list": ["B"] } }),
        update(doc! { "a": "B" }, doc! { "$push": { "list": { "$each": ["y", "X", "x"], "$sort": -1 } } }),
        update(doc! { "_id": 3 }, doc! { "$min": { "inner.a": "A" } }),
        update(doc! { "_id": 3 }, doc! { "$max": { "inner.a": "AB" } }),
        doc! { "update": "c", "updates": [{ "q": { "_id": 3 }, "u": { "$set": { "list.$[e]": "Z" } }, "arrayFilters": [{ "e": "A" }], "collation": caseless() }] },
        doc! { "update": "c", "updates": [{ "q": { "list": "Z" }, "u": { "$set": { "list.$": "Y" } }, "collation": caseless() }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": "NEW" }, "u": { "$set": { "x": 1 } }, "upsert": true, "collation": caseless() }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": "new" }, "u": { "$set": { "x": 2 } }, "upsert": true, "collation": caseless() }] },
        doc! { "findAndModify": "c", "query": { "a": { "$gte": "A" } }, "sort": { "a": -1, "_id": 1 }, "update": { "$set": { "f": 1 } }, "new": true, "collation": caseless() },
        doc! { "findAndModify": "c", "query": { "_id": "tEXT" }, "sort": { "_id": -1 }, "remove": true, "fields": { "a": 1 }, "collation": { "locale": "en" , "strength": 1, "caseLevel": false } },
        doc! { "delete": "c", "deletes": [{ "q": { "a": "B" }, "limit": 0, "collation": caseless() }] },
        doc! { "find": "c", "sort": { "_id": 1 } },
        aggregate(vec![doc! { "$merge": { "into": "m" } }]),
        doc! { "createIndexes": "m", "indexes": [{ "key": { "a": 1 }, "name": "a", "unique": true, "collation": caseless() }] },
        aggregate(vec![doc! { "$match": { "a": "A" } }, doc! { "$limit": 1 }, doc! { "$project": { "_id": 0, "a": { "$toLower": "$a" }, "merged": "1" } }, doc! { "$merge": { "into": "m", "on": "a" } }]),
        doc! { "aggregate": "c", "pipeline": [{ "$merge": { "into": "m", "on": "a" } }], "cursor": {} },
        doc! { "find": "m", "sort": { "_id": 1 }, "projection": { "_id": 0 } },
        // The documents of `$merge` match by the index, and so byte by byte without one of the collation.
        doc! { "insert": "ids", "documents": [{ "_id": "A", "k": "a" }, { "_id": "b", "k": "B" }, { "_id": "c", "k": "c" }] },
        doc! { "insert": "t", "documents": [{ "_id": "a", "k": "A" }, { "_id": "B", "k": "b" }, { "_id": "c", "k": "old" }] },
        merge_ids(doc! { "into": "t", "whenMatched": "keepExisting" }),
        merge_ids(doc! { "into": "t", "whenMatched": "replace" }),
        merge_ids(doc! { "into": "t" }),
        merge_ids(doc! { "into": "t", "whenMatched": [{ "$set": { "seen": { "$eq": ["$k", "$$new._id"] } } }] }),
        merge_ids(doc! { "into": "t", "whenMatched": "fail" }),
        merge_ids(doc! { "into": "t", "whenNotMatched": "fail" }),
        merge_ids(doc! { "into": "t", "on": "_id" }),
        merge_ids(doc! { "into": "t", "on": "k" }),
        doc! { "find": "t", "sort": { "_id": 1 } },
        // Symbols compare like strings, but an index with a collation refuses them.
        doc! { "insert": "symbols", "documents": [{ "_id": 1, "a": Bson::Symbol("A".into()) }, { "_id": 2, "a": "a" }, { "_id": 3, "a": Bson::Symbol("b".into()) }] },
        doc! { "find": "symbols", "filter": { "a": "a" }, "sort": { "_id": 1 }, "collation": caseless() },
        doc! { "find": "symbols", "filter": { "a": { "$gt": "A" } }, "sort": { "_id": 1 }, "collation": caseless() },
        doc! { "find": "symbols", "sort": { "a": 1, "_id": -1 }, "collation": caseless() },
        doc! { "createIndexes": "symbols", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "find": "symbols", "filter": { "a": "a" }, "sort": { "_id": 1 }, "collation": caseless() },
        doc! { "find": "symbols", "filter": { "a": "A" }, "sort": { "_id": 1 } },
        doc! { "createIndexes": "empty", "indexes": [{ "key": { "a": 1 }, "name": "a", "collation": caseless() }] },
        doc! { "insert": "empty", "documents": [{ "_id": 1, "a": Bson::Symbol("A".into()) }] },
        doc! { "find": "c", "collation": 7 },
        doc! { "find": "c", "collation": { "strength": 2 } },
        doc! { "find": "c", "collation": { "locale": "en", "strength": 9 } },
        doc! { "find": "c", "collation": { "locale": "en", "frob": 9 } },
        doc! { "find": "c", "collation": { "locale": "xx" } },
        doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "collation": { "locale": 7 } },
        doc! { "count": "c", "collation": { "locale": "xx" } },
        doc! { "distinct": "c", "key": "a", "collation": { "locale": "xx" } },
        doc! { "findAndModify": "c", "remove": true, "collation": { "locale": "xx" } },
        doc! { "dropDatabase": 1 },
    ]);
    commands
}

trait TextsOnly {
    /// Adds a filter in front of the pipeline, for operators that take texts or arrays only.
    fn with_texts_only(self) -> Self;
}

impl TextsOnly for Document {
    fn with_texts_only(mut self) -> Document {
        let stages = self.get_array_mut("pipeline").unwrap();
        let texts = doc! { "a": { "$type": "string" }, "inner": { "$exists": true } };
        stages.insert(0, doc! { "$match": texts }.into());
        self
    }
}

#[tokio::test]
async fn operations_compare_strings_as_a_real_server_does() {
    let name = format!("odm_wire_collations_{}", std::process::id());
    compare_servers(&name, commands()).await;
}
