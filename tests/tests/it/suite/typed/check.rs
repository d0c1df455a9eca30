//! Looking for what is not as the schema says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use odm::{
    CheckToken, ErrorKind, Filter,
    backend::{Recorder, operation::Insert},
    bson::{self, Bson, RawDocumentBuf, doc},
    check::{Fault, Finding},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: String,
}

/// References wherever they can be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts", soft_delete)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "by")]
    #[reference]
    author: Ref<Author>,
    #[reference]
    like: Option<Ref<Post>>,
    #[reference(max = 5)]
    also: Vec<Ref<Post>>,
    #[embed(max = 3)]
    comments: Vec<Comment>,
    #[embed]
    subject: Option<Subject>,
    #[embed]
    editors: BTreeMap<String, Comment>,
    boss: Option<Boss>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    #[reference]
    who: Ref<Author>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Boss(Ref<Author>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(rename_all = "lowercase")]
enum Subject {
    None,
    Person {
        #[reference]
        person: Ref<Author>,
    },
}

/// Of somebody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    #[reference]
    post: Ref<Post>,
}

#[derive(Schema)]
#[schema(models(Author, Post, Note))]
struct Blog;
type Db = odm::Database<Blog>;

fn post(id: i64) -> NewPost {
    NewPost {
        id,
        author: Ref::new("jane"),
        like: None,
        also: Vec::new(),
        comments: Vec::new(),
        subject: None,
        editors: BTreeMap::new(),
        boss: None,
    }
}

fn comment(who: &str) -> Comment {
    Comment { who: Ref::new(who) }
}

async fn put(
    db: &Db,
    collection: &'static str,
    documents: impl IntoIterator<Item = bson::Document>,
) {
    let documents = documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document));
    let insert = Insert {
        collection: collection.into(),
        documents: documents.collect::<Result<_, _>>().unwrap(),
        ordered: true,
    };
    db.backend().insert(insert).await.unwrap();
}

/// A blog in which everything is as it must be, with references to what is deleted by a mark too.
async fn blog(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(Author { id: "jane".into() }).await.unwrap();
    let full = NewPost {
        like: Some(Ref::new(1)),
        also: vec![Ref::new(2), Ref::new(1)],
        comments: vec![comment("jane")],
        subject: Some(Subject::Person {
            person: Ref::new("jane"),
        }),
        editors: BTreeMap::from([("first".into(), comment("jane"))]),
        ..post(2)
    };
    db.insert_many([post(1), full, post(3)]).await.unwrap();
    db.delete::<Post>(1).await.unwrap();
    db.scope("acme")
        .insert(NewNote {
            id: 1,
            post: Ref::new(1),
        })
        .await
        .unwrap();
    recorder.clear();
    (db, recorder)
}

fn shown(findings: &[Finding]) -> Vec<(&str, Bson, &str, &str)> {
    let shown = findings.iter().map(|finding| {
        let fault = match &finding.fault {
            Fault::Dangling { to, .. } => to,
            Fault::Unreadable { .. } => "unreadable",
            Fault::OutOfBounds { .. } => "out of bounds",
            other => panic!("{other:?}"),
        };
        (
            finding.collection,
            finding.id.clone(),
            finding.path.as_str(),
            fault,
        )
    });
    shown.collect()
}

pub async fn what_is_right_is_clean(fixture: Fixture) {
    let (db, recorder) = blog(&fixture).await;
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.documents, report.references), (5, 10));
    // Each collection once, and what it refers to once for each model: authors none, posts two, notes one.
    assert_eq!(recorder.queries(), 6);
    assert_eq!(
        report.to_string(),
        "5 documents, 10 references: all is as the schema says"
    );
}

pub async fn every_planted_fault_is_found_and_no_other(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let wrong = NewPost {
        author: Ref::new("gone"),
        like: Some(Ref::new(77)),
        also: vec![Ref::new(1), Ref::new(78), Ref::new(2)],
        comments: vec![comment("jane"), comment("gone")],
        subject: Some(Subject::Person {
            person: Ref::new("gone"),
        }),
        boss: Some(Boss(Ref::new("gone"))),
        editors: BTreeMap::from([("a".into(), comment("gone")), ("b".into(), comment("jane"))]),
        ..post(10)
    };
    db.insert(wrong).await.unwrap();
    db.scope("globex")
        .insert(NewNote {
            id: 2,
            post: Ref::new(79),
        })
        .await
        .unwrap();
    let many = vec![doc! { "who": "jane" }; 4];
    let plain = |id: Bson, by: Bson, comments: Vec<bson::Document>| {
        doc! { "_id": id, "by": by, "also": [], "comments": comments, "editors": {} }
    };
    let long = plain(20_i64.into(), "jane".into(), many);
    let wrong_type = plain(21_i64.into(), 5.into(), Vec::new());
    let wrong_id = plain("text".into(), "jane".into(), Vec::new());
    put(&db, "posts", [long, wrong_type, wrong_id]).await;
    let report = db.check().await.unwrap();
    let id = Bson::Int64;
    let expected = [
        ("posts", id(20), "comments", "out of bounds"),
        ("posts", id(21), "by", "unreadable"),
        ("posts", "text".into(), "_id", "unreadable"),
        ("posts", id(10), "by", "authors"),
        ("posts", id(10), "like", "posts"),
        ("posts", id(10), "also.1", "posts"),
        ("posts", id(10), "comments.1.who", "authors"),
        ("posts", id(10), "subject.person.person", "authors"),
        ("posts", id(10), "editors.a.who", "authors"),
        ("posts", id(10), "boss", "authors"),
        ("notes", id(2), "post", "posts"),
    ];
    let mut found = shown(&report.findings);
    for fault in expected {
        let at = found.iter().position(|found| *found == fault);
        found.remove(at.unwrap_or_else(|| panic!("{fault:?}: {report}")));
    }
    assert!(found.is_empty(), "{found:?}");
    // As text and as JSON.
    let text = report.to_string();
    assert!(
        text.contains("posts 10, `also.1`: refers to 78 of posts, which is not there"),
        "{text}"
    );
    assert!(
        text.ends_with("10 documents, 22 references: 11 findings"),
        "{text}"
    );
    let json = bson::serialize_to_bson(&report).unwrap();
    let findings = json.as_document().unwrap().get_array("findings").unwrap();
    assert_eq!(findings.len(), 11);
    // What is put right is found no more.
    db.delete_many::<Post>(|p| p.id().eq(10))
        .permanently()
        .await
        .unwrap();
    let only = db.check().only::<Post>().await.unwrap();
    assert_eq!(only.findings.len(), 3, "{only}");
}

/// It can be left and taken up again at any place, and finds all the same.
pub async fn a_check_goes_on_where_it_was_left(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let wrong = |id: i64| NewPost {
        like: Some(Ref::new(id + 1_000)),
        ..post(id)
    };
    db.insert_many((100..400).map(wrong)).await.unwrap();
    db.scope("acme")
        .insert(NewNote {
            id: 7,
            post: Ref::new(7_777),
        })
        .await
        .unwrap();
    let all: Vec<_> = db.check().await.unwrap().findings;
    assert_eq!(all.len(), 301);
    let mut token: Option<CheckToken> = None;
    let mut found: Vec<Finding> = Vec::new();
    loop {
        let mut findings = db.check().after(&token).stream();
        let mut some = Vec::new();
        // It ends in the middle of a batch, or of what is left.
        while let Some(finding) = findings.next().await {
            some.push(finding.unwrap());
            if some.len() == 120 {
                break;
            }
        }
        let is_over = some.len() < 120;
        // As another process would do: by the text.
        let text = findings.token().map(ToString::to_string);
        token = text.map(|text| text.parse().unwrap());
        for finding in some {
            if !found.contains(&finding) {
                found.push(finding);
            }
        }
        if is_over {
            break;
        }
        assert!(found.len() <= all.len());
    }
    assert_eq!(shown(&found), shown(&all));
    let other: CheckToken = {
        let mut findings = db.check().only::<Note>().stream();
        while findings.next().await.is_some() {}
        findings.token().unwrap().clone()
    };
    let mut findings = db.check().only::<Post>().after(other).stream();
    let error = findings.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(findings.next().await.is_none());
}

/// Links that come and go in the right order are never a finding, whenever it looks.
pub async fn a_check_disturbs_nobody_and_nobody_it(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, is_over) = (db.clone(), Arc::clone(&is_over));
        async move {
            for round in 0..60_i64 {
                let target = 1_000 + round;
                db.insert(post(target)).await.unwrap();
                db.update::<Post>(2)
                    .set(|p| p.like(), Ref::new(target))
                    .await
                    .unwrap();
                db.update::<Post>(2).unset(|p| p.like()).await.unwrap();
                db.delete_many::<Post>(|p| p.id().eq(target))
                    .permanently()
                    .await
                    .unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        }
    };
    let checker = async {
        while !is_over.load(Ordering::Relaxed) {
            let report = db.check().await.unwrap();
            assert!(report.is_clean(), "{report}");
            tokio::task::yield_now().await;
        }
    };
    futures_util::join!(writer, checker);
    let left = db
        .find::<Post>()
        .filter(|_| Filter::all())
        .count()
        .await
        .unwrap();
    assert_eq!(left, 2);
}
