//! Injection attempts: strings, maps and JSON bodies of a user, passed to every typed entry point, must stay values.
//!
//! The rows are the attempts, the columns the entry points. A read must find only documents with exactly the value. A write must
//! store exactly the value at its path and change no other field.

use std::collections::BTreeMap;

use odm::{
    ErrorKind, Filter, Pattern,
    bson::{Bson, doc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Note {
    text: String,
    votes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Login {
    name: String,
    password: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "entries")]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    text: String,
    maybe: Option<String>,
    #[embed]
    note: Note,
    #[embed(unbounded)]
    texts: Vec<String>,
    #[embed(unbounded)]
    notes: Vec<Note>,
    #[embed]
    map: BTreeMap<String, String>,
    any: Bson,
    #[embed(unbounded)]
    anys: Vec<Bson>,
    raw: bson::Document,
    #[reference]
    like: Option<Ref<Entry>>,
    marker: i64,
}

#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Entry))]
struct Public;

type Db = odm::Database<Public>;

/// Strings that a user may send.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "$where",
        "$ne",
        "$$ROOT",
        "$$NOW",
        "$text",
        "$note.text",
        "$[]",
        "$",
        "a.b",
        ".",
        "..",
        "text.0",
        "{\"$ne\": null}",
        "{\"$gt\": \"\"}",
        "{ $where: 'sleep(1000)' }",
        "'; return true; //",
        "' || '1'=='1",
        "\", \"marker\": 1, \"x\": \"",
        ".*",
        "^",
        "(?i)v.*",
        "(a+)+$",
        "[",
        "\\",
        "\\Q\\E",
        "%",
        "_",
        "a\0b",
        "\0",
        "\u{202e}\u{feff}",
        "null",
        "true",
        "0",
        "-1",
        "ObjectId('000000000000000000000000')",
        "__proto__",
        "constructor",
        "_id",
        "",
    ]
    .map(str::to_owned)
    .into();
    texts.push("$".repeat(100_000));
    texts.push(".*".repeat(10_000));
    texts
}

/// JSON bodies that a user may send.
fn bodies() -> Vec<bson::Document> {
    vec![
        doc! { "$ne": Bson::Null },
        doc! { "$gt": "" },
        doc! { "$exists": true },
        doc! { "$regex": ".*" },
        doc! { "$where": "return true" },
        doc! { "$in": ["victim"] },
        doc! { "$each": [1, 2] },
        doc! { "$literal": 1 },
        doc! { "$expr": true },
        doc! { "$or": [{}] },
        doc! { "text": { "$ne": Bson::Null } },
    ]
}

fn entry(id: &str, text: &str) -> Entry {
    Entry {
        id: id.into(),
        text: text.into(),
        maybe: Some(text.into()),
        note: Note {
            text: text.into(),
            votes: 1,
        },
        texts: vec![text.into()],
        notes: vec![Note {
            text: text.into(),
            votes: 1,
        }],
        map: BTreeMap::from([("key".to_owned(), text.to_owned())]),
        any: Bson::String(text.into()),
        anys: vec![Bson::String(text.into()), Bson::Int32(1)],
        raw: doc! { "text": text },
        like: Some(Ref::new(text)),
        marker: 0,
    }
}

/// Returns a database with one document that no attempt may reach.
async fn database(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.insert(entry("victim", "victim")).await.unwrap();
    db
}

type EntryFilter = Filter<Entry>;
type ReadCase = (&'static str, fn(odm::Fields<Entry>, &str) -> EntryFilter);

/// Every filter entry point that finds an equal value.
const READS: &[ReadCase] = &[
    ("eq", |e, v| e.text().eq(v)),
    ("eq of an option", |e, v| e.maybe().eq(v)),
    ("eq of a field of a struct", |e, v| e.note().text().eq(v)),
    ("eq of a struct", |e, v| {
        e.note().eq(Note {
            text: v.into(),
            votes: 1,
        })
    }),
    ("eq of a map", |e, v| {
        e.map()
            .eq(BTreeMap::from([("key".to_owned(), v.to_owned())]))
    }),
    ("eq of a reference", |e, v| e.like().eq(Ref::new(v))),
    ("eq of any BSON", |e, v| e.any().eq(Bson::String(v.into()))),
    ("eq of a document", |e, v| e.raw().eq(doc! { "text": v })),
    ("not ne", |e, v| !e.text().ne(v)),
    ("is_in", |e, v| e.text().is_in([v])),
    ("not not_in", |e, v| !e.text().not_in([v])),
    ("between", |e, v| e.text().between(v, v)),
    ("gte and lte", |e, v| e.text().gte(v) & e.text().lte(v)),
    ("not gt and not lt", |e, v| {
        !e.text().gt(v) & !e.text().lt(v) & e.text().exists()
    }),
    ("contains", |e, v| e.texts().contains(v)),
    ("not excludes", |e, v| !e.texts().excludes(v)),
    ("contains_all", |e, v| e.texts().contains_all([v])),
    ("equals", |e, v| e.texts().equals([v])),
    ("eq of any element", |e, v| e.texts().eq(v)),
    ("eq of one element", |e, v| e.texts().at(0).eq(v)),
    ("any of values", |e, v| e.texts().any(|t| t.eq(v))),
    ("any of structs", |e, v| {
        e.notes().any(|n| n.text().eq(v) & n.votes().eq(1))
    }),
    ("eq of a map's value", |e, v| e.map().key("key").eq(v)),
    ("a literal pattern", |e, v| {
        e.text().matches(Pattern::prefix(v))
            & e.text().matches(Pattern::literal(v))
            & e.text().lte(v)
    }),
    ("the pattern of starts_with", |e, v| {
        e.text().starts_with(v) & e.text().lte(v)
    }),
    ("an expression", |e, v| e.text().value().eq(v)),
    ("an expression of any BSON", |e, v| {
        e.any().value().eq(Bson::String(v.into()))
    }),
    ("an expression of a struct", |e, v| {
        e.notes().at(0).text().value().eq(v) & e.note().text().value().eq(e.text())
    }),
    ("the id", |e, v| e.id().eq(v)),
];

async fn ids(db: &Db, filter: EntryFilter) -> Vec<String> {
    let found = db.find::<Entry>().filter(|_| filter).all().await;
    found.unwrap().into_iter().map(|entry| entry.id).collect()
}

/// A filter finds no document before the insert of the value, and only the inserted document afterwards.
pub async fn texts_in_filters(fixture: Fixture) {
    let db = database(&fixture).await;
    for text in texts() {
        let short: String = text.chars().take(30).collect();
        // Backends limit the length of a pattern, and this text exceeds the limit.
        let is_too_long = |entry: &str| text.len() > 10_000 && entry.contains("pattern");
        let reads = || READS.iter().filter(|(entry, _)| !is_too_long(entry));
        for (entry, filter) in reads() {
            let found = ids(&db, filter(<Entry as Document>::fields(), &text)).await;
            assert_eq!(found, [""; 0], "{entry}: {short:?}");
        }
        db.insert(entry(&text, &text)).await.unwrap();
        for (entry, filter) in reads() {
            let found = ids(&db, filter(<Entry as Document>::fields(), &text)).await;
            assert_eq!(found, [text.as_str()], "{entry}: {short:?}");
        }
        assert_eq!(
            db.get::<Entry>(&text).await.unwrap(),
            entry(&text, &text),
            "{short:?}"
        );
        let with = db.get_many::<Entry>([&text]).await.unwrap();
        assert_eq!(with.len(), 1);
        let joined = db
            .find::<Entry>()
            .filter(|e| e.id().eq(&text))
            .with(|e| e.like());
        let (_, like) = joined.one().await.unwrap();
        assert_eq!(like.unwrap().loaded().unwrap().id, text, "{short:?}");
        assert_eq!(db.delete::<Entry>(&text).await.unwrap().deleted, 1);
        assert_eq!(db.delete::<Entry>(&text).await.unwrap().deleted, 0);
    }
    assert_eq!(db.find::<Entry>().count().await.unwrap(), 1);
}

/// Patterns of a user are regular expressions. An invalid pattern is an error, and no pattern reaches another field.
pub async fn patterns_are_patterns(fixture: Fixture) {
    let db = database(&fixture).await;
    for (pattern, expected) in [
        ("^vic", Some(1)),
        ("$where", Some(0)),
        ("a\0b", Some(0)),
        ("[", None),
    ] {
        let found = db
            .find::<Entry>()
            .filter(|e| e.text().matches(pattern))
            .count()
            .await;
        assert_eq!(found.ok(), expected, "{pattern:?}");
    }
}

type ApplyUpdate = fn(
    odm::action::Update<Entry, odm::action::ByIdWhen>,
    &str,
) -> odm::action::Update<Entry, odm::action::ByIdWhen>;
type ApplyToEntry = fn(&mut Entry, &str);

/// Every update entry point, with the expected change of the document.
const WRITES: &[(&str, ApplyUpdate, ApplyToEntry)] = &[
    (
        "set",
        |u, v| u.set(|e| e.text(), v),
        |e, v| e.text = v.into(),
    ),
    (
        "set an option",
        |u, v| u.set(|e| e.maybe(), v),
        |e, v| e.maybe = Some(v.into()),
    ),
    (
        "set a field of a struct",
        |u, v| u.set(|e| e.note().text(), v),
        |e, v| e.note.text = v.into(),
    ),
    (
        "set a struct",
        |u, v| {
            u.set(
                |e| e.note(),
                Note {
                    text: v.into(),
                    votes: 7,
                },
            )
        },
        |e, v| {
            e.note = Note {
                text: v.into(),
                votes: 7,
            }
        },
    ),
    (
        "set an element",
        |u, v| u.set(|e| e.texts().at(0), v),
        |e, v| e.texts[0] = v.into(),
    ),
    (
        "set an array",
        |u, v| u.set(|e| e.texts(), [v, v]),
        |e, v| e.texts = vec![v.into(), v.into()],
    ),
    (
        "set every element",
        |u, v| u.set(|e| e.notes().all().text(), v),
        |e, v| e.notes[0].text = v.into(),
    ),
    (
        "set matching elements",
        |u, v| u.set(|e| e.notes().matching(|n| n.text().ne(v)).text(), v),
        |e, v| e.notes[0].text = v.into(),
    ),
    (
        "set matching elements that are values",
        |u, v| u.set(|e| e.texts().matching(|t| t.ne(v)), v),
        |e, v| e.texts[0] = v.into(),
    ),
    (
        "set elements that do not match",
        |u, v| u.set(|e| e.notes().matching(|n| n.text().eq(v)).votes(), 0),
        |_, _| {},
    ),
    (
        "set the first element",
        |u, v| u.set(|e| e.notes().first_matching(|n| n.text().ne(v)).text(), v),
        |e, v| e.notes[0].text = v.into(),
    ),
    (
        "set a map's value",
        |u, v| u.set(|e| e.map().key("key"), v),
        |e, v| drop(e.map.insert("key".into(), v.into())),
    ),
    (
        "set a map",
        |u, v| {
            u.set(
                |e| e.map(),
                BTreeMap::from([("k".to_owned(), v.to_owned())]),
            )
        },
        |e, v| e.map = BTreeMap::from([("k".to_owned(), v.to_owned())]),
    ),
    (
        "set any BSON",
        |u, v| u.set(|e| e.any(), Bson::String(v.into())),
        |e, v| e.any = Bson::String(v.into()),
    ),
    (
        "set a document",
        |u, v| u.set(|e| e.raw(), doc! { "v": v }),
        |e, v| e.raw = doc! { "v": v },
    ),
    (
        "set a reference",
        |u, v| u.set(|e| e.like(), Ref::new(v)),
        |e, v| e.like = Some(Ref::new(v)),
    ),
    (
        "min",
        |u, v| u.min(|e| e.text(), v),
        |e, v| {
            if v < e.text.as_str() {
                e.text = v.into();
            }
        },
    ),
    (
        "max",
        |u, v| u.max(|e| e.text(), v),
        |e, v| {
            if v > e.text.as_str() {
                e.text = v.into();
            }
        },
    ),
    (
        "push",
        |u, v| u.push(|e| e.texts(), v),
        |e, v| e.texts.push(v.into()),
    ),
    (
        "push_each",
        |u, v| u.push_each(|e| e.texts(), [v, v]),
        |e, v| e.texts.extend([v.into(), v.into()]),
    ),
    (
        "push a struct",
        |u, v| {
            u.push(
                |e| e.notes(),
                Note {
                    text: v.into(),
                    votes: 2,
                },
            )
        },
        |e, v| {
            e.notes.push(Note {
                text: v.into(),
                votes: 2,
            })
        },
    ),
    (
        "push at a position",
        |u, v| u.push_with(|e| e.texts(), [v], |push| push.at(0)),
        |e, v| e.texts.insert(0, v.into()),
    ),
    (
        "push, sort and cut",
        |u, v| {
            u.push_with(
                |e| e.texts(),
                [v],
                |push| push.sort(|t| t.asc()).keep_first(5),
            )
        },
        |e, v| {
            e.texts.push(v.into());
            e.texts.sort();
        },
    ),
    (
        "add_to_set",
        |u, v| u.add_to_set(|e| e.texts(), v),
        |e, v| e.texts.push(v.into()),
    ),
    ("pull", |u, v| u.pull(|e| e.texts(), v), |_, _| {}),
    ("pull_all", |u, v| u.pull_all(|e| e.texts(), [v]), |_, _| {}),
    (
        "pull a struct",
        |u, v| {
            u.pull(
                |e| e.notes(),
                Note {
                    text: v.into(),
                    votes: 1,
                },
            )
        },
        |_, _| {},
    ),
    (
        "pull_where",
        |u, v| u.pull_where(|e| e.texts(), |t| t.eq(v)),
        |_, _| {},
    ),
    (
        "pull_where of structs",
        |u, v| u.pull_where(|e| e.notes(), |n| n.text().eq(v)),
        |_, _| {},
    ),
    (
        "when",
        |u, v| u.when(|e| e.text().ne(v)).inc(|e| e.marker(), 1),
        |e, _| e.marker += 1,
    ),
];

/// An update stores exactly the value, at its path only.
pub async fn texts_in_updates(fixture: Fixture) {
    let db = database(&fixture).await;
    let other = entry("other", "other");
    db.insert(other.clone()).await.unwrap();
    for text in texts() {
        let short: String = text.chars().take(30).collect();
        // One document for each entry point.
        let victim = |at: usize| Entry {
            id: format!("victim {at:02}"),
            ..entry("victim", "victim")
        };
        db.insert_many((0..WRITES.len()).map(victim)).await.unwrap();
        for (at, (entry, write, _)) in WRITES.iter().enumerate() {
            let update = db.update::<Entry>(victim(at).id);
            let done = write(update.when(|_| None::<Filter<Entry>>), &text).await;
            assert!(
                done.as_ref().is_ok_and(|done| done.is_applied()),
                "{entry}: {short:?}: {done:?}"
            );
        }
        let changed = db
            .find::<Entry>()
            .filter(|e| e.id().starts_with("victim "))
            .sort(|e| e.id().asc());
        let changed = changed.all().await.unwrap();
        assert_eq!(changed.len(), WRITES.len());
        for (at, ((entry, _, expect), changed)) in WRITES.iter().zip(changed).enumerate() {
            let mut expected = victim(at);
            expect(&mut expected, &text);
            assert_eq!(changed, expected, "{entry}: {short:?}");
        }
        db.delete_many::<Entry>(|e| e.id().starts_with("victim "))
            .await
            .unwrap();
        let many = db.update_many::<Entry>(|e| e.id().eq(&text));
        let many = many.set(|e| e.text(), &text).await;
        assert_eq!(many.unwrap().matched, 0, "{short:?}");
        // Saves treat the read document and the written document as values.
        let mut edited = db.edit::<Entry>("victim").await.unwrap();
        edited.text.clone_from(&text);
        edited.note.text.clone_from(&text);
        edited.texts.push(text.clone());
        edited.map.insert("new".into(), text.clone());
        edited.any = Bson::String(text.clone());
        db.save(&mut edited).await.unwrap();
        let saved = db.get::<Entry>("victim").await.unwrap();
        assert_eq!(saved, *edited, "{short:?}");
        let back = db
            .modify::<Entry>("victim", |e| *e = entry("victim", "victim"))
            .await
            .unwrap();
        assert_eq!(back, entry("victim", "victim"), "{short:?}");
        assert_eq!(db.get::<Entry>("other").await.unwrap(), other, "{short:?}");
        assert_eq!(
            db.delete_many::<Entry>(|e| e.text().eq(&text))
                .await
                .unwrap()
                .deleted,
            0
        );
    }
}

/// A regular expression in a field of type `Bson` is a value, not a query.
pub async fn regular_expressions_as_values(fixture: Fixture) {
    let db = database(&fixture).await;
    let regex = Bson::RegularExpression(bson::Regex {
        pattern: bson::raw::cstr!(".*").into(),
        options: bson::raw::cstr!("").into(),
    });
    let filters: [EntryFilter; 7] = [
        f().any().eq(regex.clone()),
        f().any().is_in([regex.clone(), Bson::Null]),
        !f().any().ne(regex.clone()),
        !f().any().not_in([regex.clone()]),
        f().any().value().eq(regex.clone()),
        f().anys().contains_all([regex.clone()]),
        f().anys()
            .any(|a| a.is_in([regex.clone()]) & a.ne(Bson::Null)),
    ];
    for filter in &filters {
        assert_eq!(ids(&db, filter.clone()).await, [""; 0], "{filter:?}");
    }
    let holder = Entry {
        any: regex.clone(),
        anys: vec![regex.clone()],
        ..entry("holder", "holder")
    };
    db.insert(holder.clone()).await.unwrap();
    for filter in &filters {
        assert_eq!(ids(&db, filter.clone()).await, ["holder"], "{filter:?}");
    }
    // A regular expression as a value removes neither strings nor values of any type besides regular expressions.
    for update in [
        db.update::<Entry>("victim")
            .pull(|e| e.anys(), regex.clone()),
        db.update::<Entry>("victim")
            .pull_where(|e| e.anys(), |a| a.eq(regex.clone())),
        db.update::<Entry>("victim")
            .pull_where(|e| e.anys(), |a| a.is_in([regex.clone()]) & a.exists()),
        db.update::<Entry>("victim").set(
            |e| e.anys().matching(|a| a.is_in([regex.clone()])),
            Bson::Null,
        ),
        db.update::<Entry>("victim")
            .set(|e| e.anys().matching(|a| !a.ne(regex.clone())), Bson::Null),
    ] {
        assert_eq!(update.await.unwrap().modified, 0);
    }
    assert_eq!(
        db.get::<Entry>("victim").await.unwrap(),
        entry("victim", "victim")
    );
    let mut edited = db.edit::<Entry>("holder").await.unwrap();
    edited.any = Bson::Null;
    db.save(&mut edited).await.unwrap();
    db.update::<Entry>("holder")
        .pull(|e| e.anys(), regex)
        .await
        .unwrap();
    let stored = db.get::<Entry>("holder").await.unwrap();
    assert_eq!((stored.any, stored.anys), (Bson::Null, vec![]));
}

/// A body such as `{"$ne": null}` is no string and no number, so deserializing the body fails. A field of type `Bson` compares
/// and stores the body as a document.
pub async fn json_bodies(fixture: Fixture) {
    let db = database(&fixture).await;
    for body in bodies() {
        let json = Bson::Document(body.clone()).into_relaxed_extjson();
        for text in [
            json.to_string(),
            format!("{{\"name\": \"victim\", \"password\": {json}}}"),
        ] {
            assert!(serde_json::from_str::<String>(&text).is_err(), "{text}");
            assert!(serde_json::from_str::<Login>(&text).is_err(), "{text}");
            assert!(serde_json::from_str::<Note>(&text).is_err(), "{text}");
            assert!(serde_json::from_str::<i64>(&text).is_err(), "{text}");
            assert!(
                serde_json::from_str::<Vec<String>>(&text).is_err(),
                "{text}"
            );
            assert!(serde_json::from_str::<Uuid>(&text).is_err(), "{text}");
        }
        // As a map of strings, the body has keys that are no paths. Every entry point refuses the map.
        if let Ok(map) = serde_json::from_str::<BTreeMap<String, String>>(&json.to_string()) {
            for refused in [
                db.find::<Entry>()
                    .filter(|e| e.map().eq(&map))
                    .all()
                    .await
                    .map(drop),
                db.update::<Entry>("victim")
                    .set(|e| e.map(), &map)
                    .await
                    .map(drop),
                db.insert(Entry {
                    map: map.clone(),
                    ..entry("new", "new")
                })
                .await
                .map(drop),
            ] {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{map:?}");
            }
        }
        // In a field of type `Bson`, the body is a value.
        let any = Bson::Document(body.clone());
        let filters: [EntryFilter; 11] = [
            f().any().eq(any.clone()),
            f().raw().eq(body.clone()),
            f().any().is_in([any.clone()]),
            !f().any().ne(any.clone()),
            !f().raw().not_in([body.clone()]),
            f().any().value().eq(any.clone()),
            f().anys().contains(any.clone()),
            f().anys().contains_all([any.clone()]),
            f().anys().any(|a| a.eq(any.clone()) & a.ne(Bson::Null)),
            !f().anys().excludes(any.clone()),
            f().raw().value().eq(body.clone()),
        ];
        for filter in &filters {
            assert_eq!(ids(&db, filter.clone()).await, [""; 0], "{filter:?}");
        }
        let holder = Entry {
            any: any.clone(),
            anys: vec![Bson::Int32(1), any.clone()],
            raw: body.clone(),
            ..entry("holder", "holder")
        };
        db.insert(holder.clone()).await.unwrap();
        assert_eq!(db.get::<Entry>("holder").await.unwrap(), holder);
        for filter in &filters {
            assert_eq!(ids(&db, filter.clone()).await, ["holder"], "{filter:?}");
        }
        db.update::<Entry>("victim")
            .set(|e| e.any(), any.clone())
            .set(|e| e.raw(), body.clone())
            .await
            .unwrap();
        let victim = db.get::<Entry>("victim").await.unwrap();
        assert_eq!((&victim.any, &victim.raw), (&any, &body));
        let mut edited = db.edit::<Entry>("victim").await.unwrap();
        edited.any = Bson::Int64(1);
        edited.raw = doc! { "$set": { "marker": 7 } };
        db.save(&mut edited).await.unwrap();
        edited.any = Bson::String("victim".into());
        edited.raw = doc! { "text": "victim" };
        db.save(&mut edited).await.unwrap();
        assert_eq!(
            db.get::<Entry>("victim").await.unwrap(),
            entry("victim", "victim")
        );
        for pull in [
            db.update::<Entry>("victim").pull(|e| e.anys(), any.clone()),
            db.update::<Entry>("victim")
                .pull_where(|e| e.anys(), |a| a.eq(any.clone())),
            db.update::<Entry>("victim")
                .pull_where(|e| e.anys(), |a| a.is_in([any.clone()])),
            db.update::<Entry>("victim").set(
                |e| e.anys().matching(|a| a.is_in([any.clone()])),
                Bson::Null,
            ),
        ] {
            assert_eq!(pull.await.unwrap().modified, 0, "{any}");
        }
        db.update::<Entry>("victim")
            .add_each_to_set(|e| e.anys(), [any.clone(), any.clone()])
            .await
            .unwrap();
        db.update::<Entry>("victim")
            .push_with(|e| e.anys(), [any.clone()], |push| push.at(0))
            .await
            .unwrap();
        let anys = db.get::<Entry>("victim").await.unwrap().anys;
        assert_eq!((anys.len(), &anys[0], &anys[3]), (4, &any, &any));
        db.update::<Entry>("victim")
            .pull_where(|e| e.anys(), |a| a.is_in([any.clone()]))
            .await
            .unwrap();
        assert_eq!(
            db.get::<Entry>("victim").await.unwrap(),
            entry("victim", "victim")
        );
        db.delete::<Entry>("holder").await.unwrap();
    }
}

fn f() -> odm::Fields<Entry> {
    <Entry as Document>::fields()
}

/// A map key becomes part of a path. Every entry point refuses a key that could be another path or an operator, before any
/// request is sent.
pub async fn keys_of_maps(fixture: Fixture) {
    let db = database(&fixture).await;
    let before = db.get::<Entry>("victim").await.unwrap();
    for key in [
        "", ".", "a.b", "$where", "$[]", "$", "key.$[]", "a\0b", "\0", "..", "$$ROOT",
    ] {
        let map = BTreeMap::from([(key.to_owned(), "v".to_owned())]);
        let mut edited = db.edit::<Entry>("victim").await.unwrap();
        edited.map.insert(key.into(), "v".into());
        let update = || db.update::<Entry>("victim");
        for (entry, refused) in [
            (
                "filter",
                db.find::<Entry>()
                    .filter(|e| e.map().key(key).eq("v"))
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "contains_key",
                db.find::<Entry>()
                    .filter(|e| e.map().contains_key(key))
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "negation",
                db.find::<Entry>()
                    .filter(|e| !e.map().key(key).eq("v"))
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "expression",
                db.find::<Entry>()
                    .filter(|e| e.map().key(key).value().eq("v"))
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "other side",
                db.find::<Entry>()
                    .filter(|e| e.text().value().eq(e.map().key(key)))
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "count",
                db.find::<Entry>()
                    .filter(|e| e.map().key(key).exists())
                    .count()
                    .await
                    .map(drop),
            ),
            (
                "sort",
                db.find::<Entry>()
                    .sort(|e| e.map().key(key).asc())
                    .all()
                    .await
                    .map(drop),
            ),
            (
                "set",
                update().set(|e| e.map().key(key), "v").await.map(drop),
            ),
            (
                "min",
                update().min(|e| e.map().key(key), "v").await.map(drop),
            ),
            (
                "remove_key",
                update().remove_key(|e| e.map(), key).await.map(drop),
            ),
            (
                "rename_key from",
                update().rename_key(|e| e.map(), key, "new").await.map(drop),
            ),
            (
                "rename_key to",
                update().rename_key(|e| e.map(), "key", key).await.map(drop),
            ),
            (
                "when",
                update()
                    .when(|e| e.map().key(key).exists())
                    .inc(|e| e.marker(), 1)
                    .await
                    .map(drop),
            ),
            ("set a map", update().set(|e| e.map(), &map).await.map(drop)),
            (
                "insert",
                db.insert(Entry {
                    map: map.clone(),
                    ..entry("new", "new")
                })
                .await
                .map(drop),
            ),
            ("save", db.save(&mut edited).await),
            (
                "delete",
                db.delete::<Entry>("victim")
                    .when(|e| e.map().key(key).ne("v"))
                    .await
                    .map(drop),
            ),
            (
                "delete_many",
                db.delete_many::<Entry>(|e| e.map().key(key).ne("v"))
                    .await
                    .map(drop),
            ),
            (
                "update_many",
                db.update_many::<Entry>(|e| e.map().key(key).ne("v"))
                    .inc(|e| e.marker(), 1)
                    .await
                    .map(drop),
            ),
        ] {
            let error = refused.expect_err(entry);
            assert_eq!(
                error.kind(),
                ErrorKind::Invalid,
                "{entry}: {key:?}: {error}"
            );
            if matches!(entry, "insert" | "filter" | "set") {
                assert_eq!(error.path(), Some("map"), "{entry}: {key:?}: {error}");
            }
        }
        assert_eq!(db.get::<Entry>("victim").await.unwrap(), before, "{key:?}");
    }
    // All other keys are valid, including keys that look special.
    for key in [
        "a$b",
        "0",
        "-1",
        "_id",
        "key key",
        "__proto__",
        "ключ",
        "{}",
        "[0]",
        "%",
        "'",
    ] {
        db.update::<Entry>("victim")
            .set(|e| e.map().key(key), "v")
            .await
            .unwrap();
        assert_eq!(
            ids(&db, f().map().key(key).eq("v")).await,
            ["victim"],
            "{key:?}"
        );
        assert_eq!(
            ids(&db, f().map().key(key).value().eq("v")).await,
            ["victim"],
            "{key:?}"
        );
        assert_eq!(db.get::<Entry>("victim").await.unwrap().map[key], "v");
        db.update::<Entry>("victim")
            .remove_key(|e| e.map(), key)
            .await
            .unwrap();
        assert_eq!(db.get::<Entry>("victim").await.unwrap(), before, "{key:?}");
    }
    assert_eq!(db.find::<Entry>().count().await.unwrap(), 1);
}
