use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bson::rawdoc;
use odm::{
    backend::{Recorder, operation::Operation},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "articles",
    index(slug, -when, author.name.last),
    projection(ArticleCard, without(body_text, comments, drafts, notes), derive(Serialize, PartialEq)),
    projection(ArticleText, without(id, slug, when, author, editor, comments, drafts, notes, counts))
)]
#[serde(rename_all = "camelCase")]
struct Article {
    #[serde(rename = "_id")]
    id: i64,
    slug: String,
    when: DateTime,
    body_text: String,
    #[embed]
    author: Author,
    #[embed]
    editor: Option<Author>,
    #[embed(max = 9)]
    comments: Vec<Comment>,
    #[embed(max = 9)]
    drafts: Vec<Option<Comment>>,
    #[embed]
    notes: BTreeMap<String, Comment>,
    #[embed]
    counts: HashMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(rename_all = "camelCase")]
struct Author {
    #[embed]
    name: Name,
    home_page: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Name {
    first: String,
    last: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    who: String,
    text: String,
    #[embed(max = 3)]
    answers: Vec<Comment>,
}

/// A model with fields of every layout, for a generated projection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "albums", version, projection(AlbumCard, without(notes)))]
struct Album {
    #[serde(rename = "_id")]
    id: i64,
    version: i64,
    #[serde(with = "odm::native")]
    released: chrono::NaiveDate,
    #[serde(default, with = "odm::native")]
    sold_out: Option<chrono::NaiveDate>,
    #[reference]
    article: Ref<Article>,
    #[embed(overflow(after = 2, into = "more_tracks"))]
    tracks: Overflow<String>,
    notes: String,
}

#[derive(Schema)]
#[schema(models(Article, Album))]
struct Press;
type Db = odm::Database<Press>;

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Article)]
#[serde(rename_all = "camelCase")]
struct Card {
    slug: String,
    author: Byline,
    editor: Option<Byline>,
    comments: Vec<Who>,
    drafts: Vec<Option<Who>>,
    notes: BTreeMap<String, Who>,
    counts: HashMap<String, i64>,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Author)]
#[serde(rename_all = "camelCase")]
struct Byline {
    name: Last,
    home_page: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Name)]
struct Last {
    last: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Comment)]
struct Who {
    who: String,
}

fn comment(who: &str) -> Comment {
    Comment {
        who: who.into(),
        text: "…".repeat(100),
        answers: vec![],
    }
}

fn author(last: &str) -> Author {
    Author {
        name: Name {
            first: "Jane".into(),
            last: last.into(),
        },
        home_page: "https://example.com".into(),
    }
}

fn article(id: i64) -> Article {
    Article {
        id,
        slug: format!("article-{}", id % 4),
        when: DateTime::from_millis(id),
        body_text: "…".repeat(1_000),
        author: author("Doe"),
        editor: (id % 2 == 1).then(|| author("Roe")),
        comments: vec![comment("a"), comment("b")],
        drafts: vec![Some(comment("c")), None, Some(comment("d"))],
        notes: BTreeMap::from([("x".into(), comment("e"))]),
        counts: HashMap::from([("y".into(), id)]),
    }
}

async fn press(fixture: &Fixture, articles: i64) -> (Db, Recorder) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    db.insert_many((0..articles).map(article)).await.unwrap();
    recorder.clear();
    (db, recorder)
}

fn byline(last: &str) -> Byline {
    Byline {
        name: Last { last: last.into() },
        home_page: "https://example.com".into(),
    }
}

fn who(who: &str) -> Who {
    Who { who: who.into() }
}

pub async fn nested_projections_read_their_paths(fixture: Fixture) {
    let (db, recorder) = press(&fixture, 2).await;
    let cards: Vec<Card> = db
        .find::<Article>()
        .select()
        .sort(|a| a.id().asc())
        .all()
        .await
        .unwrap();
    for (card, id) in cards.iter().zip(0..) {
        let expected = Card {
            slug: format!("article-{id}"),
            author: byline("Doe"),
            editor: (id == 1).then(|| byline("Roe")),
            comments: vec![who("a"), who("b")],
            drafts: vec![Some(who("c")), None, Some(who("d"))],
            notes: BTreeMap::from([("x".into(), who("e"))]),
            counts: HashMap::from([("y".into(), id)]),
        };
        assert_eq!(*card, expected);
    }
    let [Operation::Find(find)] = &recorder.operations()[..] else {
        panic!("one query");
    };
    let expected = rawdoc! {
        "slug": 1, "author.name.last": 1, "author.homePage": 1, "editor.name.last": 1, "editor.homePage": 1,
        "comments.who": 1, "drafts": 1, "notes": 1, "counts": 1, "_id": 0,
    };
    assert_eq!(find.projection, Some(expected));
}

pub async fn generated_projections_leave_fields_out(fixture: Fixture) {
    let (db, recorder) = press(&fixture, 2).await;
    let card: ArticleCard = db
        .find::<Article>()
        .filter(|a| a.id().eq(1))
        .select()
        .one()
        .await
        .unwrap();
    let expected = article(1);
    assert_eq!(
        (card.id, &card.slug, card.when),
        (1, &expected.slug, expected.when)
    );
    assert_eq!(
        (&card.author, &card.editor),
        (&expected.author, &expected.editor)
    );
    assert_eq!(card.counts, expected.counts);
    let [Operation::Find(find)] = &recorder.operations()[..] else {
        panic!("one query");
    };
    let read = rawdoc! { "_id": 1, "slug": 1, "when": 1, "author": 1, "editor": 1, "counts": 1 };
    assert_eq!(find.projection, Some(read));
    let json = serde_json::to_value(card.clone()).unwrap();
    assert_eq!(json["author"]["homePage"], "https://example.com");
    let text: ArticleText = db
        .find::<Article>()
        .select()
        .first()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(text.body_text, expected.body_text);

    let day = chrono::NaiveDate::from_ymd_opt(2027, 1, 31).unwrap();
    let album = NewAlbum {
        id: 7,
        released: day,
        sold_out: None,
        article: Ref::new(1),
        tracks: ["a", "b", "c"].map(String::from).into(),
        notes: "…".repeat(1_000),
    };
    db.insert(album).await.unwrap();
    let album = db
        .find::<Album>()
        .select::<AlbumCard>()
        .with(|a| a.article());
    let (album, linked) = album.one().await.unwrap();
    assert_eq!((album.id, album.version, album.released), (7, 1, day));
    assert_eq!((album.sold_out, album.article), (None, Ref::new(1)));
    assert_eq!(album.tracks.len(), 3);
    assert_eq!(linked.loaded().map(|article| article.id), Some(1));
}

/// The query of a page also reads the sort fields. A path that the projection has already is read once.
pub async fn a_page_also_reads_its_sort_fields(fixture: Fixture) {
    #[derive(Deserialize, Projection)]
    #[projection(of = Article)]
    struct Small {
        author: Nobody,
    }
    #[derive(Deserialize, Projection)]
    #[projection(of = Author)]
    struct Nobody {
        name: Last,
    }
    let (db, recorder) = press(&fixture, 5).await;
    let page = db
        .find::<Article>()
        .select::<Small>()
        .sort(|a| {
            (
                a.author().name().last().asc(),
                a.author().home_page().desc(),
            )
        })
        .page(2)
        .await
        .unwrap();
    assert_eq!(page.items[0].author.name.last, "Doe");
    let [Operation::Find(find)] = &recorder.operations()[..] else {
        panic!("one query");
    };
    let expected = rawdoc! { "author.name.last": 1, "author.homePage": 1, "_id": 1 };
    assert_eq!(find.projection, Some(expected));
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Article)]
struct Line {
    when: DateTime,
    author: Signature,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Author)]
struct Signature {
    name: Last,
}

pub async fn an_index_alone_serves_a_projection(fixture: Fixture) {
    let (db, _) = press(&fixture, 40).await;
    let query = || {
        db.find::<Article>()
            .filter(|a| a.slug().eq("article-1"))
            .sort(|a| a.when().desc())
    };
    let unprojected = query().explain().await.unwrap();
    assert_eq!(
        (unprojected.documents_examined, unprojected.returned),
        (10, 10)
    );
    let explain = query().select::<Line>().explain().await.unwrap();
    assert_eq!(
        (
            explain.keys_examined,
            explain.documents_examined,
            explain.returned
        ),
        (10, 0, 10),
        "{explain:?}"
    );
    assert!(!explain.is_collection_scan && !explain.is_sorted_in_memory);
    let lines = query().select::<Line>().limit(2).all().await.unwrap();
    let name = || Signature {
        name: Last { last: "Doe".into() },
    };
    let line = |millis| Line {
        when: DateTime::from_millis(millis),
        author: name(),
    };
    assert_eq!(lines, [line(37), line(33)]);
}

pub async fn explain_reports_a_scan_and_a_sort(fixture: Fixture) {
    let (db, recorder) = press(&fixture, 12).await;
    let scan = db
        .find::<Article>()
        .sort(|a| a.body_text().asc())
        .limit(3)
        .explain()
        .await
        .unwrap();
    assert!(
        scan.is_collection_scan && scan.is_sorted_in_memory,
        "{scan:?}"
    );
    assert_eq!(
        (scan.documents_examined, scan.returned, scan.indexes),
        (12, 3, vec![])
    );
    let one = db
        .find::<Article>()
        .filter(|a| a.id().eq(3))
        .explain()
        .await
        .unwrap();
    assert_eq!(
        (one.indexes, one.documents_examined, one.returned),
        (vec!["_id_".into()], 1, 1)
    );
    assert!(matches!(
        recorder.operations()[..],
        [Operation::Explain(_), Operation::Explain(_)]
    ));
    let empty = db.find::<Article>().limit(0).explain().await.unwrap();
    assert_eq!(empty.returned, 0);
    fixture.backend().drop_collection("articles").await.unwrap();
    let gone = db.find::<Article>().explain().await.unwrap();
    assert_eq!((gone.returned, gone.documents_examined), (0, 0));
    if fixture.backend().capabilities().transactions {
        let in_transaction = db
            .transaction(|tx| async move { tx.find::<Article>().explain().await })
            .await;
        match in_transaction {
            Ok(explain) => assert_eq!(explain.returned, 0),
            Err(error) => assert!(error.is_unsupported(), "{error}"),
        }
    }
}
