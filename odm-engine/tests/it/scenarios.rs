//! Typical document layouts of applications, with their indexes. If an index decides, a query reads no more documents than it
//! returns.

use bson::oid::ObjectId;
use bson::{DateTime, RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::{Database, Direction, Explain, ExplainStage, Find, Index};

fn index(keys: &[(&str, i32)]) -> Index {
    Index::new(keys.iter().map(|(path, sign)| {
        let direction = if *sign > 0 {
            Direction::Ascending
        } else {
            Direction::Descending
        };
        (*path, direction)
    }))
}

fn date(second: i64) -> DateTime {
    DateTime::from_millis(1_700_000_000_000 + second * 1_000)
}

fn insert(
    database: &Database,
    collection: &str,
    documents: impl IntoIterator<Item = RawDocumentBuf>,
) {
    let documents = documents.into_iter().collect();
    database
        .insert(collection, documents)
        .unwrap()
        .into_result()
        .unwrap();
}

/// Asserts that the query reads no more documents than it returns.
#[track_caller]
fn assert_direct(database: &Database, collection: &str, find: &Find, returned: u64) -> Explain {
    let explain = database.explain(collection, find).unwrap();
    assert_ne!(explain.stage, ExplainStage::CollectionScan, "{explain:?}");
    assert_eq!(explain.returned, returned, "{explain:?}");
    if !explain.covered {
        assert_eq!(explain.documents_examined, returned, "{explain:?}");
    }
    explain
}

fn by(filter: RawDocumentBuf) -> Find {
    Find {
        filter,
        ..Find::default()
    }
}

#[test]
fn one_to_many_products_and_their_parts() {
    let database = Database::memory();
    database
        .create_indexes(
            "products",
            &[index(&[("catalog_number", 1)]), index(&[("parts", 1)])],
        )
        .unwrap();
    database
        .create_indexes("parts", &[index(&[("partno", 1)])])
        .unwrap();
    let ids: Vec<_> = (0..200).map(|_| ObjectId::new()).collect();
    let part = |(n, id): (usize, &ObjectId)| {
        rawdoc! { "_id": *id, "partno": format!("{n:03}-aff"), "name": "grommet", "qty": 94, "cost": 0.94, "price": 3.99 }
    };
    insert(&database, "parts", ids.iter().enumerate().map(part));
    let product = |n: usize| {
        let parts: RawArrayBuf = ids.iter().skip(n * 4).take(4).copied().collect();
        rawdoc! { "_id": n as i32, "name": format!("barrow {n}"), "catalog_number": n as i32, "parts": parts }
    };
    insert(&database, "products", (0..50).map(product));

    assert_direct(
        &database,
        "products",
        &by(rawdoc! { "catalog_number": 7 }),
        1,
    );
    let page_ids: RawArrayBuf = ids.iter().skip(28).take(4).copied().collect();
    let joined = by(rawdoc! { "_id": { "$in": page_ids } });
    assert_eq!(
        assert_direct(&database, "parts", &joined, 4).stage,
        ExplainStage::IdLookup
    );
    assert_direct(&database, "parts", &by(rawdoc! { "partno": "123-aff" }), 1);
    // From a part to the products that contain it.
    assert_direct(&database, "products", &by(rawdoc! { "parts": ids[30] }), 1);
}

#[test]
fn one_to_very_many_a_host_and_its_log() {
    let database = Database::memory();
    database
        .create_indexes("hosts", &[index(&[("ipaddr", 1)]).unique()])
        .unwrap();
    database
        .create_indexes("logmsgs", &[index(&[("host", 1), ("time", -1)])])
        .unwrap();
    let host = |n: i32| rawdoc! { "_id": n, "name": format!("h{n}.example.com"), "ipaddr": format!("127.66.66.{n}") };
    insert(&database, "hosts", (0..10).map(host));
    let line = |n: i64| rawdoc! { "_id": ObjectId::new(), "time": date(n), "message": "cpu is on fire", "host": (n % 10) as i32 };
    insert(&database, "logmsgs", (0..2_000).map(line));

    // Fetch only the host's id.
    let id = Find {
        projection: Some(rawdoc! { "_id": 1 }),
        ..by(rawdoc! { "ipaddr": "127.66.66.6" })
    };
    assert_direct(&database, "hosts", &id, 1);
    let latest = Find {
        sort: Some(rawdoc! { "time": -1 }),
        limit: Some(50),
        ..by(rawdoc! { "host": 6 })
    };
    let explain = assert_direct(&database, "logmsgs", &latest, 50);
    assert!(explain.sorted_by_index);
    let find_since = Find {
        sort: Some(rawdoc! { "time": -1 }),
        ..by(rawdoc! { "host": 6, "time": { "$gte": date(1_000) } })
    };
    let explain = assert_direct(&database, "logmsgs", &find_since, 100);
    assert!(explain.sorted_by_index);
    assert_eq!(explain.bounds.len(), 2);
    // The merged logs of several hosts.
    let several = Find {
        sort: Some(rawdoc! { "time": -1 }),
        limit: Some(5),
        ..by(rawdoc! { "host": { "$in": [1, 4, 6] } })
    };
    let explain = assert_direct(&database, "logmsgs", &several, 5);
    assert!(explain.sorted_by_index);
    let times: Vec<_> = database
        .find("logmsgs", &several)
        .unwrap()
        .map(|line| line.unwrap().get_datetime("time").unwrap())
        .collect();
    assert_eq!(times, [1_996, 1_994, 1_991, 1_986, 1_984].map(date));
}

#[test]
fn content_site_posts_tags_and_comments() {
    let database = Database::memory();
    let indexes = [
        index(&[("when", -1)]),
        index(&[("author", 1), ("when", -1)]),
        index(&[("tags", 1)]),
        index(&[("comments.who", 1)]),
    ];
    database.create_indexes("posts", &indexes).unwrap();
    let user = |name: &str| rawdoc! { "_id": name, "name": { "first": name, "last": "Smith" }, "karma": 1.0 };
    insert(&database, "users", ["alex", "jane", "calvin"].map(user));
    let post = |n: i64| {
        let author = ["alex", "jane", "calvin"][(n % 3) as usize];
        rawdoc! {
            "_id": n, "when": date(n), "author": author, "title": format!("post {n}"), "text": "…",
            "tags": [format!("tag{}", n % 10), "all"], "votes": 2, "voters": ["jane", "joe"],
            "comments": [
                { "who": format!("reader{}", n % 20), "when": date(n + 1), "comment": "I agree." },
                { "who": "bob", "when": date(n + 2), "comment": "No." },
            ],
        }
    };
    insert(&database, "posts", (0..300).map(post));

    let newest = Find {
        sort: Some(rawdoc! { "when": -1 }),
        projection: Some(rawdoc! { "title": 1, "author": 1, "slug": 1 }),
        limit: Some(10),
        ..Find::default()
    };
    let explain = assert_direct(&database, "posts", &newest, 10);
    assert!(explain.sorted_by_index);
    let by_author = Find {
        sort: Some(rawdoc! { "when": -1 }),
        ..by(rawdoc! { "author": "jane" })
    };
    assert!(assert_direct(&database, "posts", &by_author, 100).sorted_by_index);
    assert_direct(&database, "posts", &by(rawdoc! { "tags": "tag7" }), 30);
    assert_direct(
        &database,
        "posts",
        &by(rawdoc! { "comments.who": "reader3" }),
        15,
    );
    assert_direct(
        &database,
        "posts",
        &by(rawdoc! { "when": { "$gte": date(290), "$lt": date(295) } }),
        5,
    );
    assert_direct(
        &database,
        "users",
        &by(rawdoc! { "_id": { "$in": ["alex", "jane"] } }),
        2,
    );
}

#[test]
fn paging_by_the_last_key_seen() {
    let database = Database::memory();
    let indexes = [
        index(&[("threadId", 1), ("date", 1)]),
        index(&[("threadId", 1), ("date", 1), ("_id", 1)]),
    ];
    for declared in 1..=2 {
        database
            .create_indexes("posts", &indexes[..declared])
            .unwrap();
        let collection = if declared == 1 {
            // Two posts in each second, so that the id has to break ties.
            let post = |n: i64| rawdoc! { "_id": n, "threadId": (n % 4) as i32, "date": date(n / 8), "text": "…" };
            insert(&database, "posts", (0..800).map(post));
            "posts"
        } else {
            "posts"
        };
        let mut last: Option<(DateTime, i64)> = None;
        let mut seen = Vec::new();
        loop {
            let after = match last {
                None => rawdoc! { "threadId": 2 },
                Some((time, id)) => rawdoc! {
                    "threadId": 2,
                    "$or": [{ "date": { "$gt": time } }, { "date": time, "_id": { "$gt": id } }],
                },
            };
            let page = Find {
                sort: Some(rawdoc! { "date": 1, "_id": 1 }),
                limit: Some(20),
                ..by(after)
            };
            let explain = database.explain(collection, &page).unwrap();
            assert_eq!(explain.stage, ExplainStage::IndexScan);
            // The scan skips the posts before the page. It reads the posts in the first second of the page, but not with an index
            // in the requested order.
            let more = if declared == 2 { 0 } else { 2 };
            assert!(
                explain.documents_examined <= explain.returned + more,
                "{explain:?}"
            );
            assert_eq!(explain.sorted_by_index, declared == 2);
            let documents: Vec<_> = database
                .find(collection, &page)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let Some(end) = documents.last() else { break };
            last = Some((
                end.get_datetime("date").unwrap(),
                end.get_i64("_id").unwrap(),
            ));
            seen.extend(documents.iter().map(|post| post.get_i64("_id").unwrap()));
        }
        let expected: Vec<_> = (0..800).filter(|n| n % 4 == 2).collect();
        assert_eq!(seen, expected);
    }
}

/// Pages over many equal keys, over missing keys, and against the index's direction. Each page reads only its own keys.
#[test]
fn a_page_walks_its_own_keys() {
    let database = Database::memory();
    database
        .create_indexes("posts", &[index(&[("score", 1), ("_id", 1)])])
        .unwrap();
    // Four scores with hundreds of posts each, and some posts without a score.
    let post = |n: i64| match n % 5 {
        4 => rawdoc! { "_id": n, "text": "…" },
        score => rawdoc! { "_id": n, "score": score, "text": "…" },
    };
    insert(&database, "posts", (0..1_000).map(post));
    for (filter, first) in [
        // Pages within score 2 in both directions, the last page of score 0 in descending order, and posts without a score.
        (
            rawdoc! { "$or": [{ "score": { "$gt": 2 } }, { "score": 2, "_id": { "$gt": 502 } }] },
            507,
        ),
        (
            rawdoc! { "$or": [{ "score": { "$lt": 2 } }, { "score": null }, { "score": 2, "_id": { "$lt": 502 } }] },
            497,
        ),
        (
            rawdoc! { "$or": [{ "score": { "$lt": 0 } }, { "score": null }, { "score": 0, "_id": { "$lt": 15 } }] },
            10,
        ),
        (
            rawdoc! { "$or": [{ "score": null, "_id": { "$lt": 504 } }] },
            499,
        ),
    ] {
        let sign = if first == 507 { 1 } else { -1 };
        let page = Find {
            sort: Some(rawdoc! { "score": sign, "_id": sign }),
            limit: Some(20),
            ..by(filter)
        };
        let explain = database.explain("posts", &page).unwrap();
        assert_eq!(
            (explain.stage, explain.sorted_by_index),
            (ExplainStage::IndexScan, true),
            "{explain:?}"
        );
        assert_eq!(
            (
                explain.keys_examined,
                explain.documents_examined,
                explain.returned
            ),
            (20, 20, 20),
            "{explain:?}"
        );
        let documents: Vec<_> = database
            .find("posts", &page)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(documents[0].get_i64("_id").unwrap(), first);
        let mut sorted = documents.clone();
        sorted.sort_by_key(|post| {
            let score = post
                .get("score")
                .unwrap()
                .map_or(-1, |score| score.as_i64().unwrap());
            (
                score * i64::from(sign),
                post.get_i64("_id").unwrap() * i64::from(sign),
            )
        });
        assert_eq!(documents, sorted);
    }
}
