//! Two tenants, with every kind of derived data: a write of one tenant changes no document of the second tenant.

use std::collections::BTreeMap;

use odm::{
    Database, ErrorKind, Filter, Session,
    backend::{operation, read_to_end},
    bson::{Bson, Document as Stored, RawDocumentBuf, doc},
    check::FindingKind,
    prelude::*,
};

use crate::{
    Fixture,
    crash::{CrashTest, Write},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct TenantId(String);

/// The parent of rollups, the source of copies, the target of delete rules, and the target of references with an inverse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards", scope = tenant, soft_delete)]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    title: String,
    #[count(of = Like::board)]
    likes: i64,
    #[sum(of = Like::board, value = weight)]
    weight: i64,
    #[latest(3, of = Like::board, by = weight)]
    heaviest: Vec<LikeCard>,
    #[reference(inverse_of = board, max = 50)]
    posts: Vec<Ref<Post>>,
    #[reference(inverse_of = board, overflow(after = 2, into = "board_members"))]
    members: Overflow<Ref<Member>>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Like)]
struct LikeCard {
    weight: i64,
    text: String,
}

/// A child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "likes", scope = tenant)]
struct Like {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference]
    board: Ref<Board>,
    weight: i64,
    text: String,
}

/// A dependent that keeps its last value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "quotes", scope = tenant)]
struct Quote {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference]
    board: Ref<Board>,
    #[denormalize(from = board.title)]
    title: String,
    #[snapshot(from = board.title)]
    first_title: String,
}

/// A dependent that loses its value with the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teasers", scope = tenant)]
struct Teaser {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference(on_delete = keep)]
    board: Ref<Board>,
    #[denormalize(from = board.title, on_delete = clear)]
    title: Option<String>,
}

/// A referrer with an inverse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts", scope = tenant)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference(inverse = posts, on_delete = nullify)]
    board: Option<Ref<Board>>,
}

/// A referrer with an inverse in an overflow array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members", scope = tenant)]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference(inverse = members, on_delete = nullify)]
    board: Option<Ref<Board>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "pages", scope = tenant)]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference(on_delete = cascade)]
    board: Option<Ref<Board>>,
    #[reference(on_delete = restrict)]
    home: Option<Ref<Board>>,
    #[reference(exists)]
    seen: Option<Ref<Board>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "journals", scope = tenant, soft_delete)]
struct Journal {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[embed(overflow(after = 2, into = "journal_entries"))]
    entries: Overflow<String>,
    deleted_at: Option<DateTime>,
}

/// Belongs to no tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "public")]
struct Public {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Board, Like, Quote, Teaser, Post, Member, Page, Journal, Public))]
struct Forum;
type Db = Database<Forum>;
type Tenant = Session<Forum, TenantId>;

/// The boards of tenant a, present and soft-deleted, the board of tenant b, and an `_id` without a board.
const BOARD_OF_A: i64 = 1;
const DELETED_BOARD_OF_A: i64 = 2;
const BOARD_OF_B: i64 = 3;
const UNUSED_BOARD_ID: i64 = 4;

/// The weight of a like of tenant b. The sum of three likes with this weight overflows `i64`.
const OVERFLOWING_WEIGHT: i64 = i64::MAX / 2 - 100;

fn tenant(db: &Db, name: &str) -> Tenant {
    db.scope(&TenantId(name.into()))
}

fn board(id: i64) -> NewBoard {
    NewBoard {
        id,
        title: format!("board {id}"),
    }
}

fn like(id: i64, board: i64) -> NewLike {
    NewLike {
        id,
        board: Ref::new(board),
        weight: 10,
        text: format!("like {id}"),
    }
}

fn quote(id: i64, board: i64) -> NewQuote {
    NewQuote {
        id,
        board: Ref::new(board),
    }
}

fn teaser(id: i64, board: i64) -> NewTeaser {
    NewTeaser {
        id,
        board: Ref::new(board),
    }
}

fn post(id: i64, board: i64) -> NewPost {
    NewPost {
        id,
        board: Some(Ref::new(board)),
    }
}

fn member(id: i64, board: i64) -> NewMember {
    NewMember {
        id,
        board: Some(Ref::new(board)),
    }
}

fn page(id: i64) -> NewPage {
    NewPage {
        id,
        board: None,
        home: None,
        seen: None,
    }
}

/// Returns a page with a reference to a board in the field with this number: `board`, `home` or `seen`.
fn page_with_reference(id: i64, reference: usize, board: i64) -> NewPage {
    let mut page = page(id);
    let references = [&mut page.board, &mut page.home, &mut page.seen];
    for (number, place) in references.into_iter().enumerate() {
        if number == reference {
            *place = Some(Ref::new(board));
        }
    }
    page
}

fn journal(id: i64) -> NewJournal {
    NewJournal {
        id,
        entries: (0..6)
            .map(|n| format!("entry {n} of {id}"))
            .collect::<Vec<_>>()
            .into(),
    }
}

/// Inserts a document of each kind for both tenants, with references to their boards. The ids are 1.. for a and 3.. for b.
async fn insert_forum(fixture: &Fixture) -> (Db, Tenant, Tenant) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let (a, b) = (tenant(&db, "a"), tenant(&db, "b"));
    a.insert_many([board(BOARD_OF_A), board(DELETED_BOARD_OF_A)])
        .await
        .unwrap();
    b.insert(board(BOARD_OF_B)).await.unwrap();
    for (session, boards) in [
        (&a, &[BOARD_OF_A, DELETED_BOARD_OF_A][..]),
        (&b, &[BOARD_OF_B]),
    ] {
        for id in boards {
            let first_id = id * 100;
            session.insert(like(first_id, *id)).await.unwrap();
            session.insert(quote(first_id, *id)).await.unwrap();
            session.insert(teaser(first_id, *id)).await.unwrap();
            session.insert(post(first_id, *id)).await.unwrap();
            let members = (first_id..first_id + 5).map(|member_id| member(member_id, *id));
            session.insert_many(members).await.unwrap();
            session
                .insert(page_with_reference(first_id, 2, *id))
                .await
                .unwrap();
            session.insert(journal(first_id)).await.unwrap();
        }
    }
    a.delete::<Board>(DELETED_BOARD_OF_A).await.unwrap();
    a.delete::<Journal>(DELETED_BOARD_OF_A * 100).await.unwrap();
    db.wait_for_pending().await.unwrap();
    (db, a, b)
}

/// The stored documents of tenant a, and the chunk documents of its arrays.
async fn stored_documents_of_a(fixture: &Fixture) -> BTreeMap<String, Vec<Stored>> {
    let backend = fixture.backend();
    let mut all = BTreeMap::new();
    for collection in backend.list_collections().await.unwrap() {
        if collection.starts_with("_odm") {
            continue;
        }
        let find = operation::FindOperation {
            collection: collection.clone().into(),
            filter: RawDocumentBuf::new(),
            projection: None,
            sort: Some(RawDocumentBuf::try_from(&doc! { "_id": 1 }).unwrap()),
            limit: None,
            options: Default::default(),
        };
        let found = read_to_end(backend.find(find).await.unwrap())
            .await
            .unwrap();
        let found = found.iter().map(|raw| Stored::try_from(&**raw).unwrap());
        let of_a = found.filter(|document| match document.get("tenant") {
            Some(tenant) => *tenant == Bson::from("a"),
            // A chunk document has the `_id` of its owner, which names the tenant here.
            None => document.values().filter_map(Bson::as_i64).any(|owner| {
                (100..300).contains(&owner) || [BOARD_OF_A, DELETED_BOARD_OF_A].contains(&owner)
            }),
        });
        all.insert(collection, of_a.collect());
    }
    all
}

/// Asserts that no pending work is left and no document of tenant a has changed.
async fn assert_tenant_a_unchanged(
    fixture: &Fixture,
    db: &Db,
    before: &BTreeMap<String, Vec<Stored>>,
    after: &str,
) {
    db.wait_for_pending().await.unwrap();
    let now = stored_documents_of_a(fixture).await;
    for (collection, documents) in before {
        assert_eq!(
            Some(documents),
            now.get(collection),
            "{collection}, after {after}"
        );
    }
}

/// Asserts that the check finds dangling references alone.
async fn assert_only_dangling_findings(db: &Db) {
    let report = db.check().await.unwrap();
    let wrong = report.findings.iter();
    let wrong: Vec<_> = wrong
        .filter(|finding| !matches!(finding.kind, FindingKind::Dangling { .. }))
        .map(ToString::to_string)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Awaits a write of tenant b, and asserts that no document of tenant a has changed.
macro_rules! assert_each_write {
    ($fixture:expr, $db:expr, $before:expr, { $($name:literal: $write:expr => $outcome:expr,)* }) => {$(
        let outcome = $write.await.map_err(|error| error.kind());
        assert_eq!(outcome.map(drop), $outcome, "{}", $name);
        assert_tenant_a_unchanged($fixture, $db, $before, $name).await;
    )*};
}

pub async fn children_are_counted_in_their_scope(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    let before = stored_documents_of_a(&fixture).await;
    let heavy = |id, board| NewLike {
        weight: OVERFLOWING_WEIGHT,
        text: "injected".into(),
        ..like(id, board)
    };
    for (at, of_a) in [BOARD_OF_A, DELETED_BOARD_OF_A].into_iter().enumerate() {
        let id = 400 + 10 * at as i64;
        assert_each_write!(&fixture, &db, &before, {
            "insert": b.insert(heavy(id, of_a)) => Ok(()),
            "insert_many": b.insert_many([heavy(id + 1, of_a), heavy(id + 2, BOARD_OF_B)]) => Ok(()),
            "set of what it changes": b.update::<Like>(id).set(|l| l.weight(), 5) => Ok(()),
            "set of the reference away": b.update::<Like>(id).set(|l| l.board(), Ref::new(BOARD_OF_B)) => Ok(()),
            "set of the reference back": b.update::<Like>(id).set(|l| l.board(), Ref::new(of_a)) => Ok(()),
            "update_many": b.update_many::<Like>(|_| Filter::all()).inc(|l| l.weight(), -1) => Ok(()),
            "modify": b.modify::<Like>(id, |like| like.weight -= 1) => Ok(()),
            "or_insert": b.update::<Like>(id + 3).inc(|l| l.weight(), 1).or_insert(heavy(id + 3, of_a)) => Ok(()),
            "bulk": b.bulk().add(b.insert(heavy(id + 4, of_a))).add(b.delete::<Like>(id + 3)) => Ok(()),
            "delete": b.delete::<Like>(id) => Ok(()),
            "delete_many": b.delete_many::<Like>(|l| l.board().eq(Ref::new(of_a))) => Ok(()),
            "of another tenant": b.update::<Like>(100).inc(|l| l.weight(), 1) => Err(ErrorKind::NotFound),
        });
        b.insert(heavy(id + 5, of_a)).await.unwrap();
        if fixture.backend().capabilities().transactions {
            let in_transaction = db.transaction(|tx| async move {
                let tx = tx.scope(&TenantId("b".into()));
                tx.insert(heavy(id + 6, of_a)).await?;
                tx.delete::<Like>(id + 5).await
            });
            assert_each_write!(&fixture, &db, &before, { "transaction": in_transaction => Ok(()), });
        }
    }
    assert_only_dangling_findings(&db).await;
    // The children of b count at the board of b alone.
    let board_of_b = b.get::<Board>(BOARD_OF_B).await.unwrap();
    let likes = b
        .find::<Like>()
        .filter(|l| l.board().eq(Ref::new(BOARD_OF_B)));
    assert_eq!(
        board_of_b.likes,
        i64::try_from(likes.count().await.unwrap()).unwrap()
    );
    // Tenant a can still write.
    a.insert(like(190, BOARD_OF_A)).await.unwrap();
    a.restore::<Board>(DELETED_BOARD_OF_A).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let (live, restored) = (
        a.get::<Board>(BOARD_OF_A).await.unwrap(),
        a.get::<Board>(DELETED_BOARD_OF_A).await.unwrap(),
    );
    assert_eq!((live.likes, live.weight, live.heaviest.len()), (2, 20, 2));
    assert_eq!((restored.likes, restored.weight), (1, 10));
    let repaired = db.repair().apply().await.unwrap();
    assert_eq!(
        a.get::<Board>(BOARD_OF_A).await.unwrap(),
        live,
        "{repaired}"
    );
    // The deletes of tenant b do not change a board of tenant a.
    b.delete_many::<Like>(|_| Filter::all()).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(a.get::<Board>(BOARD_OF_A).await.unwrap(), live);
}

pub async fn a_later_parent_counts_children_of_its_scope(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    b.insert_many([like(400, UNUSED_BOARD_ID), like(401, UNUSED_BOARD_ID)])
        .await
        .unwrap();
    a.insert(like(190, UNUSED_BOARD_ID)).await.unwrap();
    a.insert(board(UNUSED_BOARD_ID)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let counted = |board: Board| (board.likes, board.weight, board.heaviest.len());
    assert_eq!(
        counted(a.get::<Board>(UNUSED_BOARD_ID).await.unwrap()),
        (1, 10, 1)
    );
    // Later writes of b to its children change no document of a.
    b.update::<Like>(400).set(|l| l.weight(), 99).await.unwrap();
    b.delete::<Like>(401).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(
        counted(a.get::<Board>(UNUSED_BOARD_ID).await.unwrap()),
        (1, 10, 1)
    );
    assert_only_dangling_findings(&db).await;
    // Tenant a deletes a board, and tenant b inserts a board with the same `_id`.
    a.delete::<Board>(UNUSED_BOARD_ID)
        .permanently()
        .await
        .unwrap();
    b.insert(board(UNUSED_BOARD_ID)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(
        counted(b.get::<Board>(UNUSED_BOARD_ID).await.unwrap()),
        (1, 99, 1)
    );
    assert_only_dangling_findings(&db).await;
}

pub async fn references_to_other_scopes_are_rejected(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    let before = stored_documents_of_a(&fixture).await;
    b.insert_many([page(400)]).await.unwrap();
    for of_a in [BOARD_OF_A, DELETED_BOARD_OF_A] {
        let there = || Ref::<Board>::new(of_a);
        assert_each_write!(&fixture, &db, &before, {
            "quote": b.insert(quote(400, of_a)) => Err(ErrorKind::Dangling),
            "quotes": b.insert_many([quote(400, BOARD_OF_B), quote(401, of_a)]) => Err(ErrorKind::Dangling),
            "quote set": b.update::<Quote>(300).set(|q| q.board(), there()) => Err(ErrorKind::Dangling),
            "quote modified": b.modify::<Quote>(300, |q| q.board = Ref::new(of_a)) => Err(ErrorKind::Dangling),
            "quotes updated": b.update_many::<Quote>(|_| Filter::all()).set(|q| q.board(), there())
                => Err(ErrorKind::Dangling),
            "quote or_insert": b.update::<Quote>(402).set(|q| q.board(), Ref::new(BOARD_OF_B)).or_insert(quote(402, of_a))
                => Err(ErrorKind::Dangling),
            "teaser": b.insert(teaser(400, of_a)) => Err(ErrorKind::Dangling),
            "post": b.insert(post(400, of_a)) => Err(ErrorKind::Dangling),
            "post set": b.update::<Post>(300).set(|p| p.board(), there()) => Err(ErrorKind::Dangling),
            "posts updated": b.update_many::<Post>(|_| Filter::all()).set(|p| p.board(), there())
                => Err(ErrorKind::Dangling),
            "member": b.insert(member(400, of_a)) => Err(ErrorKind::Dangling),
            "member set": b.update::<Member>(300).set(|m| m.board(), there()) => Err(ErrorKind::Dangling),
            "page of a cascade": b.insert(page_with_reference(401, 0, of_a)) => Err(ErrorKind::Dangling),
            "page of a restrict": b.insert(page_with_reference(401, 1, of_a)) => Err(ErrorKind::Dangling),
            "page that exists": b.insert(page_with_reference(401, 2, of_a)) => Err(ErrorKind::Dangling),
            "page set, cascade": b.update::<Page>(400).set(|p| p.board(), there()) => Err(ErrorKind::Dangling),
            "page set, restrict": b.update::<Page>(400).set(|p| p.home(), there()) => Err(ErrorKind::Dangling),
            "page set, exists": b.update::<Page>(400).set(|p| p.seen(), there()) => Err(ErrorKind::Dangling),
            "board deleted": b.delete::<Board>(of_a) => Ok(()),
            "board deleted for good": b.delete::<Board>(of_a).permanently() => Ok(()),
            "board restored": b.restore::<Board>(of_a) => Err(ErrorKind::NotFound),
            "boards updated": b.update_many::<Board>(|_| Filter::all()).set(|b| b.title(), "new") => Ok(()),
            "boards deleted": b.delete_many::<Board>(|board| board.id().ne(BOARD_OF_B)) => Ok(()),
        });
    }
    // A session across all scopes sees the targets of both tenants, and not the scope of the updated documents.
    let all = db.all_scopes();
    let of_a = || Ref::<Board>::new(BOARD_OF_A);
    assert_each_write!(&fixture, &db, &before, {
        "quote, all scopes": all.update::<Quote>(300).set(|q| q.board(), of_a()) => Err(ErrorKind::Invalid),
        "post, all scopes": all.update::<Post>(300).set(|p| p.board(), of_a()) => Err(ErrorKind::Invalid),
        "page, all scopes": all.update_many::<Page>(|_| Filter::all()).set(|p| p.seen(), of_a())
            => Err(ErrorKind::Invalid),
        "bulk, all scopes": async {
            let update = all.update::<Post>(300).set(|p| p.board(), of_a());
            all.bulk().add(update).await.and_then(|report| report.into_result())
        } => Err(ErrorKind::Invalid),
        // An update across all scopes may remove references.
        "post, null": all.update::<Post>(300).set(|p| p.board(), None) => Ok(()),
    });
    assert_only_dangling_findings(&db).await;
    // No document of b prevents a delete of a.
    a.delete::<Board>(BOARD_OF_A)
        .permanently()
        .await
        .unwrap_err();
    a.delete_many::<Page>(|_| Filter::all()).await.unwrap();
    a.delete::<Board>(BOARD_OF_A).permanently().await.unwrap();
}

/// Copies of a deleted document do not follow a new document with the same `_id` in another scope.
pub async fn copies_follow_sources_of_their_scope(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    b.insert(board(UNUSED_BOARD_ID)).await.unwrap();
    b.insert(quote(400, UNUSED_BOARD_ID)).await.unwrap();
    b.insert(teaser(400, UNUSED_BOARD_ID)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    b.delete::<Board>(UNUSED_BOARD_ID)
        .permanently()
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let read_dependents = async || {
        db.wait_for_pending().await.unwrap();
        (
            b.get::<Quote>(400).await.unwrap(),
            b.get::<Teaser>(400).await.unwrap(),
        )
    };
    let before = read_dependents().await;
    assert_eq!((&*before.0.title, &before.1.title), ("board 4", &None));
    a.insert(board(UNUSED_BOARD_ID)).await.unwrap();
    a.insert(quote(190, UNUSED_BOARD_ID)).await.unwrap();
    assert_eq!(read_dependents().await, before);
    let set = a
        .update::<Board>(UNUSED_BOARD_ID)
        .set(|b| b.title(), "injected");
    set.await.unwrap();
    assert_eq!(read_dependents().await, before);
    let current = b.find::<Quote>().filter(|q| q.id().eq(400)).current();
    assert_eq!(current.one().await.unwrap(), before.0);
    let current = b.find::<Teaser>().filter(|t| t.id().eq(400)).current();
    assert_eq!(current.one().await.unwrap(), before.1);
    assert_only_dangling_findings(&db).await;
    db.repair().apply().await.unwrap();
    assert_eq!(read_dependents().await, before);
    // A write to a dependent compares the dependent with its source again.
    b.update_many::<Quote>(|q| q.id().eq(400))
        .set(|q| q.board(), Ref::new(BOARD_OF_B))
        .await
        .unwrap();
    b.delete::<Quote>(400).await.unwrap();
    a.delete::<Board>(UNUSED_BOARD_ID)
        .permanently()
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(b.get::<Teaser>(400).await.unwrap(), before.1);
    assert_eq!(a.get::<Quote>(190).await.unwrap().title, "injected");
    assert_only_dangling_findings(&db).await;
}

pub async fn array_actions_are_limited_to_the_scope(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    let before = stored_documents_of_a(&fixture).await;
    let lengths = |lengths: Vec<odm::action::Lengths>| lengths[0].documents();
    assert_eq!(lengths(b.arrays::<Journal>().lengths().await.unwrap()), 1);
    let of_b = b
        .arrays::<Journal>()
        .lengths_of(|j| j.entries())
        .await
        .unwrap();
    assert_eq!(of_b.documents(), 1);
    assert_eq!(lengths(a.arrays::<Journal>().lengths().await.unwrap()), 2);
    let all = db.all_scopes();
    assert_eq!(lengths(all.arrays::<Journal>().lengths().await.unwrap()), 3);
    let found = b
        .arrays::<Journal>()
        .any(|j| j.entries(), |e| e.eq("entry 5 of 100"))
        .await
        .unwrap();
    let found = b.find::<Journal>().filter(|_| found);
    assert_eq!(found.count().await.unwrap(), 0);
    assert_each_write!(&fixture, &db, &before, {
        "fold": b.arrays::<Journal>().fold() => Ok(()),
        "fold_one": async { b.arrays::<Journal>().fold_one(100).await.map(|folded| assert!(!folded)) } => Ok(()),
        "spill": b.arrays::<Journal>().spill() => Ok(()),
        "push": b.update::<Journal>(100).push(|j| j.entries(), "injected") => Err(ErrorKind::NotFound),
        "push of all": b.update_many::<Journal>(|_| Filter::all()).push(|j| j.entries(), "own") => Ok(()),
        "pull of all": b.update_many::<Journal>(|_| Filter::all()).pull(|j| j.entries(), "entry 5 of 100") => Ok(()),
        "delete of all": b.delete_many::<Journal>(|_| Filter::all()).permanently() => Ok(()),
    });
    assert_only_dangling_findings(&db).await;
}

pub async fn pipelines_read_only_visible_collections(fixture: Fixture) {
    let (db, a, b) = insert_forum(&fixture).await;
    db.insert(Public { id: 1 }).await.unwrap();
    let refused = [
        "journal_entries",
        "board_members",
        "_odm.sequences",
        "_odm.schema",
        "system.indexes",
        "boards",
        "nothing",
    ];
    let mut stages = Vec::new();
    for from in refused {
        let lookup = doc! { "from": from, "as": "all", "pipeline": [] };
        stages.extend([
            doc! { "$unionWith": from },
            doc! { "$unionWith": { "coll": from } },
            doc! { "$lookup": lookup.clone() },
            doc! { "$lookup": { "from": from, "as": "all", "localField": "x", "foreignField": "y" } },
            doc! { "$graphLookup": {
                "from": from, "startWith": 1, "connectFromField": "a", "connectToField": "_id", "as": "all",
            } },
            doc! { "$facet": { "a": [{ "$lookup": lookup.clone() }] } },
            doc! { "$lookup": { "from": "public", "as": "all", "pipeline": [{ "$unionWith": from }] } },
            doc! { "$unionWith": { "coll": "public", "pipeline": [{ "$lookup": lookup }] } },
        ]);
    }
    stages.extend([
        doc! { "$collStats": { "count": {} } },
        doc! { "$indexStats": {} },
        doc! { "$listSessions": {} },
        doc! { "$currentOp": {} },
        doc! { "$unionWith": { "coll": 5 } },
        doc! { "$lookup": { "from": { "db": "local", "coll": "oplog.rs" }, "as": "all", "pipeline": [] } },
    ]);
    for stage in stages {
        for rows in [
            db.find::<Public>().pipeline([stage.clone()]),
            b.find::<Public>().pipeline([stage.clone()]),
            a.find::<Journal>().pipeline([stage.clone()]),
        ] {
            let rows = rows.all_as::<Stored>().await;
            assert_eq!(rows.unwrap_err().kind(), ErrorKind::Unsupported, "{stage}");
        }
    }
    // A session across all scopes sees every document of a model without soft delete, but no chunk documents.
    let all = db.all_scopes();
    let rows = all
        .find::<Public>()
        .pipeline([doc! { "$unionWith": "likes" }]);
    assert_eq!(rows.all_as::<Stored>().await.unwrap().len(), 4);
    for from in ["journals", "journal_entries", "_odm.sequences"] {
        let rows = all.find::<Public>().pipeline([doc! { "$unionWith": from }]);
        assert_eq!(
            rows.all_as::<Stored>().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
    let rows = b.find::<Like>().pipeline([doc! { "$unionWith": "public" }]);
    assert_eq!(rows.all_as::<Stored>().await.unwrap().len(), 2);
}

/// A crash at any operation of a write of tenant b: recovery sees all scopes, and changes no document of a.
pub async fn crashed_writes_stay_in_their_scope(fixture: Fixture) {
    const WRITES: &[Write<Forum>] = &[
        ("insert of a child", |db| {
            Box::pin(async move {
                tenant(&db, "b")
                    .insert(like(400, BOARD_OF_A))
                    .await
                    .map(drop)
            })
        }),
        ("insert of a reference with an inverse", |db| {
            Box::pin(async move {
                expect_dangling(tenant(&db, "b").insert(post(400, BOARD_OF_A)).await)
            })
        }),
        ("insert of a reference with an overflow inverse", |db| {
            Box::pin(async move {
                expect_dangling(tenant(&db, "b").insert(member(400, BOARD_OF_A)).await)
            })
        }),
        ("update of a reference with an inverse", |db| {
            Box::pin(async move {
                let b = tenant(&db, "b");
                expect_dangling(
                    b.update::<Post>(300)
                        .set(|p| p.board(), Ref::new(BOARD_OF_A))
                        .await,
                )
            })
        }),
        ("insert of what would go with a board", |db| {
            Box::pin(async move {
                expect_dangling(
                    tenant(&db, "b")
                        .insert(page_with_reference(400, 0, BOARD_OF_A))
                        .await,
                )
            })
        }),
        ("change of a child, to a board of another tenant", |db| {
            Box::pin(async move {
                let b = tenant(&db, "b");
                b.update::<Like>(300)
                    .set(|l| l.board(), Ref::new(BOARD_OF_A))
                    .await
                    .map(drop)
            })
        }),
    ];
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                let (a, b) = (tenant(db, "a"), tenant(db, "b"));
                a.insert(board(BOARD_OF_A)).await.unwrap();
                b.insert(board(BOARD_OF_B)).await.unwrap();
                a.insert(like(100, BOARD_OF_A)).await.unwrap();
                b.insert(like(300, BOARD_OF_B)).await.unwrap();
                b.insert(post(300, BOARD_OF_B)).await.unwrap();
                a.insert_many((100..105).map(|id| member(id, BOARD_OF_A)))
                    .await
                    .unwrap();
            })
        },
        may_find: |fault| matches!(fault, FindingKind::Dangling { .. }),
        agrees: |db, when| {
            Box::pin(async move {
                let a = tenant(db, "a");
                let board = a.get::<Board>(BOARD_OF_A).await.unwrap();
                let counted = (board.likes, board.weight, board.heaviest.len());
                assert_eq!(counted, (1, 10, 1), "{when}");
                assert_eq!(board.posts, [], "{when}");
                let members = a.get::<Board>(BOARD_OF_A).elements(|b| b.members()).len();
                assert_eq!(members.await.unwrap(), 5, "{when}");
            })
        },
    };
    crashes.run(&fixture).await;
}

/// Asserts that a write fails with `Dangling`. Returns errors of a different kind unchanged.
fn expect_dangling<T>(done: odm::Result<T>) -> odm::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::Dangling => Ok(()),
        Err(error) => Err(error),
        Ok(_) => panic!("a reference to an invisible document was written"),
    }
}
