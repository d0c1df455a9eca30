use std::{cmp::Ordering, sync::Arc};

use bson::{RawBson, rawdoc};
use odm::{
    ErrorKind, Filter, Page, PageToken,
    action::Find,
    backend::{Recorder, operation::Operation},
    prelude::*,
};

use crate::{Fixture, models};

/// A model with a sort field of each type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "pictures",
    index(thread, -date, -id),
    index(date, id),
    index(score, id),
    index(rating, id),
    index(hidden, id)
)]
struct Picture {
    #[serde(rename = "_id")]
    id: i64,
    thread: i32,
    date: DateTime,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<i64>,
    rating: Option<f64>,
    price: Decimal128,
    #[embed]
    place: Option<Place>,
    file: Uuid,
    hidden: bool,
    #[embed]
    kind: Kind,
    #[reference]
    like: Ref<Picture>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Place {
    city: String,
}

/// An enum that is stored as a string or as a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
enum Kind {
    Photo,
    Drawing(i32),
    Video { seconds: i32 },
}

#[derive(Debug, Clone, PartialEq, Deserialize, Projection)]
#[projection(of = Picture)]
struct Title {
    title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Embedded)]
struct Number(i64);

/// A model with a newtype id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "numbered")]
struct Numbered {
    #[serde(rename = "_id")]
    id: Number,
}

#[derive(Schema)]
#[schema(models(Picture, Numbered))]
struct Board;
type Db = odm::Database<Board>;

/// Returns a picture with few distinct field values, so that many pictures have equal values.
fn picture(id: i64) -> Picture {
    // A fixed pseudorandom sequence, so that each run sees the same values.
    let dice = |salt: i64, sides: i64| {
        let mixed = (id * 31 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
        (mixed >> 33).rem_euclid(sides)
    };
    Picture {
        id,
        thread: dice(1, 3) as i32,
        date: DateTime::from_millis(dice(2, 20) * 1_000),
        title: ["", "a", "ab", "ä", "b"][dice(3, 5) as usize].into(),
        score: [None, Some(-1), Some(0), Some(i64::MAX)][dice(4, 4) as usize],
        rating: [
            None,
            Some(f64::NAN),
            Some(f64::NEG_INFINITY),
            Some(-0.5),
            Some(f64::INFINITY),
        ][dice(5, 5) as usize],
        price: ["NaN", "-1", "0.10", "7E+3"][dice(6, 4) as usize]
            .parse()
            .unwrap(),
        place: [None, Some("Oslo"), Some("Rome")][dice(7, 3) as usize]
            .map(|city| Place { city: city.into() }),
        file: Uuid::from_bytes([dice(8, 4) as u8; 16]),
        hidden: dice(9, 2) == 0,
        kind: [
            Kind::Photo,
            Kind::Drawing(1),
            Kind::Drawing(2),
            Kind::Video { seconds: 3 },
        ][dice(10, 4) as usize]
            .clone(),
        like: Ref::new(dice(11, 9)),
    }
}

async fn insert_board(fixture: &Fixture, pictures: i64) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many((0..pictures).map(picture)).await.unwrap();
    db
}

fn ids(items: &[Picture]) -> Vec<i64> {
    items.iter().map(|picture| picture.id).collect()
}

/// Returns the ids of all pages, read forwards from the first page and backwards from the last page.
async fn read_all_pages(
    query: impl Fn() -> Find<Board, Picture>,
    size: u32,
) -> (Vec<i64>, Vec<i64>) {
    let mut forwards = Vec::new();
    let mut token = None;
    let mut last: Option<Page<Picture>> = None;
    loop {
        let page = query().page(size).after(token).await.unwrap();
        assert!(page.items.len() <= size as usize);
        assert_eq!(page.previous.is_some(), last.is_some());
        assert!(page.next.is_none() || page.items.len() == size as usize);
        forwards.extend(ids(&page.items));
        token = page.next.clone();
        last = Some(page);
        if token.is_none() {
            break;
        }
    }
    let mut page = last.unwrap();
    let mut backwards = ids(&page.items);
    while let Some(token) = page.previous {
        // The token makes a round trip through its text form, as in a URL.
        let token: PageToken = token.to_string().parse().unwrap();
        page = query().page(size).before(token).await.unwrap();
        assert!(page.next.is_some());
        backwards.splice(0..0, ids(&page.items));
    }
    (forwards, backwards)
}

/// Asserts that the pages of a query contain all results exactly once, and in the same order for each page size.
async fn assert_pages_equal_the_list(
    query: impl Fn() -> Find<Board, Picture>,
    sizes: &[u32],
) -> Vec<Picture> {
    // Pages order equal documents by `_id`. The plain query does not, so the assertions below compare sorted ids.
    let all = query().all().await.unwrap();
    let mut listed = None;
    for size in sizes {
        let (forwards, backwards) = read_all_pages(&query, *size).await;
        assert_eq!(forwards, backwards, "pages of {size}");
        let listed = listed.get_or_insert(forwards.clone());
        assert_eq!(*listed, forwards, "pages of {size}");
    }
    let mut listed = listed.unwrap();
    let pictures: Vec<_> = listed
        .iter()
        .map(|id| {
            all.iter()
                .find(|picture| picture.id == *id)
                .unwrap()
                .clone()
        })
        .collect();
    let mut expected = ids(&all);
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected, "each once");
    pictures
}

/// The order of a sort: null first, then NaN, then numbers.
fn rank(rating: Option<f64>) -> (u8, f64) {
    match rating {
        None => (0, 0.0),
        Some(rating) if rating.is_nan() => (1, 0.0),
        Some(rating) => (2, rating),
    }
}

fn assert_sorted(pictures: &[Picture], order: impl Fn(&Picture, &Picture) -> Ordering) {
    for pair in pictures.windows(2) {
        assert_ne!(order(&pair[0], &pair[1]), Ordering::Greater, "{pair:?}");
    }
}

pub async fn pages_of_every_size_equal_the_list(fixture: Fixture) {
    let db = insert_board(&fixture, 83).await;
    let sizes = &[1, 2, 7, 20, 82, 83, 84];
    let find = || db.find::<Picture>();
    let listed = assert_pages_equal_the_list(find, sizes).await;
    assert_eq!(ids(&listed), (0..83).collect::<Vec<_>>());
    let listed = assert_pages_equal_the_list(|| find().sort(|p| p.id().desc()), sizes).await;
    assert_eq!(ids(&listed), (0..83).rev().collect::<Vec<_>>());
    let listed = assert_pages_equal_the_list(|| find().sort(|p| p.date().desc()), sizes).await;
    assert_sorted(&listed, |a, b| (b.date, b.id).cmp(&(a.date, a.id)));
    let listed = assert_pages_equal_the_list(
        || find().filter(|p| p.thread().eq(1)).sort(|p| p.date().asc()),
        sizes,
    )
    .await;
    assert_sorted(&listed, |a, b| (a.date, a.id).cmp(&(b.date, b.id)));
    assert!(listed.len() > 10 && listed.iter().all(|picture| picture.thread == 1));
    let none = find().filter(|p| p.thread().eq(99)).page(3).await.unwrap();
    assert_eq!((none.items, none.next, none.previous), (vec![], None, None));
}

pub async fn pages_sort_by_every_type(fixture: Fixture) {
    let db = insert_board(&fixture, 61).await;
    let sizes = &[1, 4, 60];
    let find = || db.find::<Picture>();
    let listed = assert_pages_equal_the_list(|| find().sort(|p| p.rating().asc()), sizes).await;
    assert_sorted(&listed, |a, b| {
        rank(a.rating)
            .partial_cmp(&rank(b.rating))
            .unwrap()
            .then(a.id.cmp(&b.id))
    });
    let listed = assert_pages_equal_the_list(|| find().sort(|p| p.rating().desc()), sizes).await;
    assert_sorted(&listed, |a, b| {
        rank(b.rating)
            .partial_cmp(&rank(a.rating))
            .unwrap()
            .then(b.id.cmp(&a.id))
    });
    let listed = assert_pages_equal_the_list(
        || find().sort(|p| (p.score().desc(), p.title().asc())),
        sizes,
    )
    .await;
    assert_sorted(&listed, |a, b| {
        b.score
            .cmp(&a.score)
            .then(a.title.cmp(&b.title))
            .then(a.id.cmp(&b.id))
    });
    let city = |picture: &Picture| picture.place.clone().map(|place| place.city);
    let listed = assert_pages_equal_the_list(
        || {
            find().sort(|p| {
                (
                    p.place().city().asc(),
                    p.score().desc(),
                    p.rating().asc(),
                    p.date().desc(),
                )
            })
        },
        sizes,
    )
    .await;
    assert_sorted(&listed, |a, b| {
        let rating = |picture: &Picture| rank(picture.rating);
        city(a)
            .cmp(&city(b))
            .then(b.score.cmp(&a.score))
            .then(rating(a).partial_cmp(&rating(b)).unwrap())
            .then((b.date, b.id).cmp(&(a.date, a.id)))
    });
    assert_pages_equal_the_list(
        || find().sort(|p| (p.price().desc(), p.hidden().asc())),
        sizes,
    )
    .await;
    assert_pages_equal_the_list(
        || find().sort(|p| (p.hidden().desc(), p.file().asc())),
        sizes,
    )
    .await;
    assert_pages_equal_the_list(|| find().sort(|p| (p.kind().asc(), p.like().desc())), sizes).await;
    let listed = assert_pages_equal_the_list(|| find().sort(|p| p.kind().desc()), sizes).await;
    assert!(
        listed[0].kind != Kind::Photo && listed[60].kind == Kind::Photo,
        "documents are after texts"
    );
}

pub async fn an_id_of_any_type(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert_many((0..9).map(|id| Numbered { id: Number(id) }))
        .await
        .unwrap();
    let page = |token: Option<PageToken>| {
        let db = db.clone();
        async move {
            db.find::<Numbered>()
                .sort(|n| n.id().desc())
                .page(4)
                .after(token)
                .await
                .unwrap()
        }
    };
    let first = page(None).await;
    let second = page(first.next).await;
    let third = page(second.next).await;
    let numbers = |page: &[Numbered]| page.iter().map(|n| n.id.0).collect::<Vec<_>>();
    assert_eq!(numbers(&first.items), [8, 7, 6, 5]);
    assert_eq!(numbers(&second.items), [4, 3, 2, 1]);
    assert_eq!(numbers(&third.items), [0]);
}

/// A late page examines about as many keys and documents as the first page.
pub async fn late_pages_cost_the_same(fixture: Fixture) {
    let db = insert_board(&fixture, 3_000).await;
    for (name, query) in [
        ("by date", db.find::<Picture>().sort(|p| p.date().asc())),
        (
            "by date, latest first",
            db.find::<Picture>().sort(|p| p.date().desc()),
        ),
        (
            "of a thread",
            db.find::<Picture>()
                .filter(|p| p.thread().eq(1))
                .sort(|p| p.date().desc()),
        ),
        (
            "by a score that may be missing",
            db.find::<Picture>().sort(|p| p.score().desc()),
        ),
        (
            "by a rating that may be no number",
            db.find::<Picture>().sort(|p| p.rating().asc()),
        ),
        (
            "by one of two values",
            db.find::<Picture>().sort(|p| p.hidden().asc()),
        ),
        ("by id", db.find::<Picture>()),
    ] {
        let first = query.clone().page(9).explain().await.unwrap();
        assert!(
            !first.is_collection_scan && !first.is_sorted_in_memory,
            "{name}: {first:?}"
        );
        assert_eq!(
            (
                first.keys_examined,
                first.documents_examined,
                first.returned
            ),
            (10, 10, 10),
            "{name}"
        );
        let mut token = None;
        let mut seen = 0;
        for number in 1..=100 {
            let page = query.clone().page(9).after(token.clone()).await.unwrap();
            assert_eq!(page.items.len(), 9);
            seen += page.items.len();
            if number == 2 || number % 33 == 0 || number == 100 {
                let explain = query.clone().page(9).after(token).explain().await.unwrap();
                assert_eq!(explain.indexes, first.indexes, "{name}, page {number}");
                assert!(!explain.is_sorted_in_memory, "{name}, page {number}");
                // MongoDB merges an index scan for each alternative of the page condition, and each scan examines its first key.
                let ahead = if fixture.url().starts_with("mongodb") {
                    3
                } else {
                    0
                };
                let ahead = if name == "by id" { 0 } else { ahead };
                assert_eq!(explain.returned, 10);
                let is_about_the_same = |examined| (10..=10 + ahead).contains(&examined);
                assert!(
                    is_about_the_same(explain.keys_examined),
                    "{name}, page {number}: {explain:?}"
                );
                // MongoDB may fetch a document again after the merge, if the condition has several values.
                let fetched = if ahead > 0 { 20 + ahead } else { 10 };
                assert!(
                    (10..=fetched).contains(&explain.documents_examined),
                    "{name}, page {number}: {explain:?}"
                );
            }
            token = page.next;
        }
        assert_eq!(seen, 900);
    }
}

pub async fn inserts_and_deletes_do_not_shift_pages(fixture: Fixture) {
    let db = insert_board(&fixture, 40).await;
    let query = || db.find::<Picture>().sort(|p| p.date().desc());
    let expected = ids(&read_without_pages(&query).await);
    let first = query().page(5).await.unwrap();
    // Delete the last document of the page. Insert a document with the same date, and documents at both ends of the order.
    let last = first.items.last().unwrap().clone();
    db.delete::<Picture>(last.id).await.unwrap();
    for (id, date) in [
        (1_000, last.date),
        (1_001, DateTime::MIN),
        (1_002, DateTime::MAX),
    ] {
        db.insert(Picture {
            id,
            date,
            ..picture(1)
        })
        .await
        .unwrap();
    }
    let mut seen = ids(&first.items);
    let mut token = first.next;
    while token.is_some() {
        let page = query().page(5).after(token).await.unwrap();
        seen.extend(ids(&page.items));
        token = page.next;
    }
    let kept: Vec<_> = seen.into_iter().filter(|id| *id < 1_000).collect();
    assert_eq!(kept, expected);

    // A page is empty after all its documents are deleted. The token in the opposite direction still works.
    let first = query().page(5).await.unwrap();
    let second = query().page(5).after(first.next.clone()).await.unwrap();
    db.delete_many::<Picture>(|p| !p.id().is_in(ids(&first.items)))
        .await
        .unwrap();
    let empty = query().page(5).after(first.next).await.unwrap();
    assert_eq!((empty.items.len(), &empty.next), (0, &None));
    let back = query().page(5).before(empty.previous).await.unwrap();
    assert_eq!(ids(&back.items), ids(&first.items));
    assert_eq!(back.previous, None);
    db.delete_many::<Picture>(|_| Filter::all()).await.unwrap();
    let empty = query().page(5).before(second.previous).await.unwrap();
    assert_eq!((empty.items.len(), empty.previous), (0, None));
    db.insert_many((2_000..2_003).map(|id| Picture {
        date: DateTime::MIN,
        ..picture(id)
    }))
    .await
    .unwrap();
    assert_eq!(
        query().page(5).after(empty.next).await.unwrap().items.len(),
        3
    );
}

async fn read_without_pages(query: &impl Fn() -> Find<Board, Picture>) -> Vec<Picture> {
    query().sort(|p| p.id().desc()).all().await.unwrap()
}

/// Pages during concurrent inserts and deletes return each remaining document exactly once.
pub async fn pages_during_concurrent_writes(fixture: Fixture) {
    let db = insert_board(&fixture, 120).await;
    let writer = tokio::spawn({
        let db = db.clone();
        async move {
            for id in 10_000..10_150 {
                let date = DateTime::from_millis((id * 7 % 25) * 1_000);
                db.insert(Picture {
                    id,
                    date,
                    ..picture(2)
                })
                .await
                .unwrap();
                if id % 3 == 0 {
                    db.delete::<Picture>(id - 2).await.unwrap();
                }
            }
        }
    });
    let query = || db.find::<Picture>().sort(|p| p.date().asc());
    while !writer.is_finished() {
        let (mut forwards, mut backwards) = read_all_pages(query, 11).await;
        for seen in [&mut forwards, &mut backwards] {
            seen.retain(|id| *id < 10_000);
            let all = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((all, seen.len()), (120, 120));
        }
    }
    writer.await.unwrap();
}

pub async fn joins_and_projections_have_pages(fixture: Fixture) {
    let db = insert_board(&fixture, 30).await;
    let mut token = None;
    let mut seen = Vec::new();
    loop {
        let page = db
            .find::<Picture>()
            .select::<Title>()
            .sort(|p| (p.place().city().desc(), p.score().asc()))
            .with(|p| p.like())
            .page(7)
            .after(token)
            .await
            .unwrap();
        for (title, like) in &page.items {
            assert!(like.loaded().is_some());
            seen.push(title.clone());
        }
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    let listed = assert_pages_equal_the_list(
        || {
            db.find::<Picture>()
                .sort(|p| (p.place().city().desc(), p.score().asc()))
        },
        &[8],
    )
    .await;
    let titles: Vec<_> = listed
        .into_iter()
        .map(|p| Title { title: p.title })
        .collect();
    assert_eq!(seen, titles);
}

pub async fn a_page_in_a_transaction(fixture: Fixture) {
    let db = insert_board(&fixture, 10).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let first = db.find::<Picture>().page(4).await.unwrap();
    let in_transaction = db
        .transaction(|tx| {
            let token = first.next.clone();
            async move {
                tx.delete::<Picture>(5).await?;
                tx.find::<Picture>().page(4).after(token).await
            }
        })
        .await
        .unwrap();
    assert_eq!(ids(&in_transaction.items), [4, 6, 7, 8]);
}

pub async fn a_token_is_valid_for_its_query_only(fixture: Fixture) {
    let db = insert_board(&fixture, 10).await;
    let thread = |thread| {
        db.find::<Picture>()
            .filter(move |p| p.thread().eq(thread))
            .sort(|p| p.date().asc())
    };
    let token = thread(1).page(1).await.unwrap().next.unwrap();
    // A token is valid for pages of any size.
    assert!(thread(1).page(2).after(token.clone()).await.is_ok());
    let find = || db.find::<Picture>();
    for (change, other) in [
        ("another filter", thread(2)),
        ("no filter", find().sort(|p| p.date().asc())),
        (
            "another sort",
            find()
                .filter(|p| p.thread().eq(1))
                .sort(|p| p.title().asc()),
        ),
        (
            "another direction",
            find()
                .filter(|p| p.thread().eq(1))
                .sort(|p| p.date().desc()),
        ),
        ("one field more", thread(1).sort(|p| p.title().asc())),
    ] {
        let error = other
            .clone()
            .page(1)
            .after(token.clone())
            .await
            .unwrap_err();
        assert!(error.is_invalid_page_token(), "{change}: {error}");
        assert_eq!(error.model(), Some("Picture"));
        let error = other.page(1).before(token.clone()).await.unwrap_err();
        assert!(error.is_invalid_page_token(), "{change}: {error}");
    }
    let error = db
        .find::<Numbered>()
        .page(1)
        .after(token.clone())
        .await
        .unwrap_err();
    assert!(error.is_invalid_page_token(), "another model: {error}");

    let invalid = [
        thread(1).page(0).await,
        thread(1).limit(5).page(2).await,
        thread(1).page(2).after(token.clone()).before(token).await,
    ];
    for refused in invalid {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Returns a token of the same query with a forged key.
fn forge_token(token: &PageToken, key: &[RawBson]) -> PageToken {
    let mut bytes = decode(&token.to_string());
    bytes.truncate(10);
    let key: bson::RawArrayBuf = key.iter().map(|value| value.as_raw_bson_ref()).collect();
    bytes.extend(key.as_bytes());
    encode(&bytes).parse().unwrap()
}

const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32;
    let chunk = |chunk: &[u8]| {
        let bits =
            chunk.iter().fold(0, |bits, byte| bits << 6 | digit(*byte)) << (6 * (4 - chunk.len()));
        bits.to_be_bytes()[1..chunk.len()].to_vec()
    };
    text.as_bytes().chunks(4).flat_map(chunk).collect()
}

fn encode(bytes: &[u8]) -> String {
    let chunk = |chunk: &[u8]| {
        let mut padded = [0; 4];
        padded[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(padded);
        (0..=chunk.len())
            .map(|at| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]))
            .collect::<String>()
    };
    bytes.chunks(3).map(chunk).collect()
}

pub async fn a_forged_token_injects_no_operators(fixture: Fixture) {
    let db = insert_board(&fixture, 20).await;
    let recorder = Recorder::new(fixture.backend());
    let recorded = Db::with_backend(Arc::new(recorder.clone()));
    let query = || {
        recorded
            .find::<Picture>()
            .filter(|p| p.thread().eq(1))
            .sort(|p| p.title().asc())
    };
    let token = query().page(1).await.unwrap().next.unwrap();
    assert_eq!(encode(&decode(&token.to_string())), token.to_string());
    let is_in_thread = |page: Page<Picture>| page.items.iter().all(|picture| picture.thread == 1);
    for attempt in [
        RawBson::Document(rawdoc! { "$ne": null }),
        RawBson::Document(rawdoc! { "$gt": "" }),
        RawBson::Document(rawdoc! { "$where": "true" }),
        RawBson::Document(rawdoc! { "$expr": true }),
        RawBson::String("$where".into()),
        RawBson::String("\0".into()),
        RawBson::MinKey,
        RawBson::MaxKey,
        RawBson::Null,
        RawBson::Double(f64::NAN),
        RawBson::Boolean(true),
    ] {
        for key in [
            vec![attempt.clone(), RawBson::Int64(3)],
            vec![RawBson::String("a".into()), attempt.clone()],
        ] {
            recorder.clear();
            let after = query()
                .page(100)
                .after(forge_token(&token, &key))
                .await
                .unwrap();
            let before = query()
                .page(100)
                .before(forge_token(&token, &key))
                .await
                .unwrap();
            // The pages after and before the forged key together contain all results of the query.
            assert_eq!(
                after.items.len() + before.items.len(),
                query().all().await.unwrap().len(),
                "{key:?}"
            );
            assert!(is_in_thread(after) && is_in_thread(before));
            // The forged value is only an operand of the operators of the page condition.
            let Operation::Find(find) = &recorder.operations()[0] else {
                panic!("a query")
            };
            let filter = bson::Document::try_from(&*find.filter).unwrap();
            let text = filter.to_string();
            if let RawBson::Document(document) = &attempt {
                let literal = bson::Document::try_from(document.clone())
                    .unwrap()
                    .to_string();
                for (at, _) in text.match_indices(&literal) {
                    let ours = ["\"$eq\": ", "\"$gt\": ", "\"$lt\": "];
                    assert!(
                        ours.iter().any(|operator| text[..at].ends_with(operator)),
                        "{text}"
                    );
                }
            }
        }
    }
    for key in [vec![], vec![RawBson::Int64(1)], vec![RawBson::Int64(1); 3]] {
        let error = query()
            .page(1)
            .after(forge_token(&token, &key))
            .await
            .unwrap_err();
        assert!(error.is_invalid_page_token(), "{key:?}: {error}");
    }
    drop(db);
}

pub async fn a_sort_by_a_stored_array_fails(fixture: Fixture) {
    let db = models::Db::with_backend(fixture.backend());
    db.insert_many([
        models::Post::new(1, "alex", &["a"]),
        models::Post::new(2, "alex", &["b"]),
    ])
    .await
    .unwrap();
    // A sort by the first tag compares an element of the array, so a page token is possible.
    let page = db
        .find::<models::Post>()
        .sort(|p| p.tags().at(0).asc())
        .page(1)
        .await
        .unwrap();
    let page = db
        .find::<models::Post>()
        .sort(|p| p.tags().at(0).asc())
        .page(1)
        .after(page.next)
        .await
        .unwrap();
    assert_eq!(page.items[0].id, 2);
    // The stored value is an array, and the model has a number.
    let change = odm::backend::operation::UpdateOperation {
        collection: "posts".into(),
        filter: rawdoc! {},
        change: odm::backend::operation::DocumentChange::operators(
            rawdoc! { "$set": { "votes": [1, 2] } },
        ),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(change).await.unwrap();
    let error = db
        .find::<models::Post>()
        .sort(|p| p.votes().asc())
        .page(1)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("votes"))
    );
}
