//! Checks of the stored documents against the schema.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use odm::{
    CheckToken, ErrorKind, Filter,
    backend::{Recorder, operation::InsertOperation},
    bson::{self, Bson, RawDocumentBuf, doc},
    check::{Finding, FindingKind},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: String,
}

/// A post with a reference in every possible place.
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

/// A note of a tenant.
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

async fn insert_raw(
    db: &Db,
    collection: &'static str,
    documents: impl IntoIterator<Item = bson::Document>,
) {
    let documents = documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document));
    let insert = InsertOperation {
        collection: collection.into(),
        documents: documents.collect::<Result<_, _>>().unwrap(),
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
}

/// Inserts a blog without faults, including references to a soft-deleted document.
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

fn summaries(findings: &[Finding]) -> Vec<(&str, Bson, &str, &str)> {
    let shown = findings.iter().map(|finding| {
        let fault = match &finding.kind {
            FindingKind::Dangling { to, .. } => to,
            FindingKind::Unreadable { .. } => "unreadable",
            FindingKind::OutOfBounds { .. } => "out of bounds",
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

pub async fn a_valid_database_has_no_findings(fixture: Fixture) {
    let (db, recorder) = blog(&fixture).await;
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.documents, report.references), (5, 10));
    // Three queries read the collections. Three queries read targets: two queries for posts, and a single query for notes.
    assert_eq!(recorder.queries(), 6);
    assert_eq!(
        report.to_string(),
        "5 documents, 10 references: no findings"
    );
}

pub async fn every_fault_is_found(fixture: Fixture) {
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
    insert_raw(&db, "posts", [long, wrong_type, wrong_id]).await;
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
    let mut found = summaries(&report.findings);
    for fault in expected {
        let at = found.iter().position(|found| *found == fault);
        found.remove(at.unwrap_or_else(|| panic!("{fault:?}: {report}")));
    }
    assert!(found.is_empty(), "{found:?}");
    // The report is printed as text and as JSON.
    let text = report.to_string();
    assert!(
        text.contains("posts 10, `also.1`: refers to 78 in posts, which does not exist"),
        "{text}"
    );
    assert!(
        text.ends_with("10 documents, 22 references: 11 findings"),
        "{text}"
    );
    let json = bson::serialize_to_bson(&report).unwrap();
    let findings = json.as_document().unwrap().get_array("findings").unwrap();
    assert_eq!(findings.len(), 11);
    // A deleted document has no findings.
    db.delete_many::<Post>(|p| p.id().eq(10))
        .permanently()
        .await
        .unwrap();
    let only = db.check().only::<Post>().await.unwrap();
    assert_eq!(only.findings.len(), 3, "{only}");
}

/// A check can be interrupted anywhere and resumed with the token, without losing a finding.
pub async fn a_check_resumes_from_a_token(fixture: Fixture) {
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
        // The check is interrupted in the middle of a batch, or in the middle of the remaining findings.
        while let Some(finding) = findings.next().await {
            some.push(finding.unwrap());
            if some.len() == 120 {
                break;
            }
        }
        let is_over = some.len() < 120;
        // The token is passed as text, like a token from a different process.
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
    assert_eq!(summaries(&found), summaries(&all));
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

/// Concurrent writes in a valid order never cause a finding.
pub async fn concurrent_writes_cause_no_findings(fixture: Fixture) {
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
    let remaining = db
        .find::<Post>()
        .filter(|_| Filter::all())
        .count()
        .await
        .unwrap();
    assert_eq!(remaining, 2);
}
