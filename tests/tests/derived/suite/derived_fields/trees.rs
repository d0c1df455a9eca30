use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use odm::{
    Database, ErrorKind, Session,
    action::TreeNode,
    backend::{
        Fault, Faults, Recorder,
        operation::{self, Operation},
    },
    bson::{self, RawDocumentBuf, doc, rawdoc},
    check::{FindingKind, RepairOutcome},
    document::TreeDocument,
    prelude::*,
};

use crate::{
    Fixture,
    crash::{CrashTest, Write},
    operation_lists::{CostRow, OperationLists, read_row, write_row},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "categories", version)]
struct Category {
    #[serde(rename = "_id")]
    id: String,
    #[reference(on_delete = restrict)]
    parent: Option<Ref<Category>>,
    #[tree(parent = parent, max = 8)]
    ancestors: Vec<Ref<Category>>,
    rank: i64,
    version: i64,
}

/// A document outside of the tree, with a copy of the ancestors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    category: Ref<Category>,
    #[denormalize(from = category.ancestors)]
    #[reference(max = 8)]
    categories: Vec<Ref<Category>>,
}

/// A tree in which a delete makes roots of the children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "folders")]
struct Folder {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    parent: Option<Ref<Folder>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Folder>>,
}

/// A tree in which a delete deletes all documents below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    parent: Option<Ref<Comment>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Comment>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct TenantId(String);

/// A tree for each tenant, with soft deletes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "pages", scope = tenant, soft_delete)]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[reference(on_delete = restrict)]
    parent: Option<Ref<Page>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Page>>,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Category, Product, Folder, Comment, Page))]
struct Shop;
type Db = Database<Shop>;

fn category(id: &str, parent: Option<&str>) -> NewCategory {
    NewCategory {
        id: id.into(),
        parent: parent.map(Ref::new),
        rank: 0,
    }
}

/// Opens a database with a tree, and a recorder.
async fn open(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_tree(&db).await;
    recorder.clear();
    (db, recorder)
}

/// Inserts `tools` with `saws`, `jigsaws` and `drills` below, and `garden` with `mowers`.
async fn insert_tree(db: &Db) {
    db.sync_indexes().await.unwrap();
    for (id, parent) in [
        ("tools", None),
        ("saws", Some("tools")),
        ("jigsaws", Some("saws")),
        ("drills", Some("tools")),
        ("garden", None),
        ("mowers", Some("garden")),
    ] {
        db.insert(category(id, parent)).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
}

/// Inserts four folders and four comments, each below the one before.
async fn insert_chains(db: &Db) {
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(3))] {
        let folder = NewFolder {
            id,
            parent: parent.map(Ref::new),
        };
        db.insert(folder).await.unwrap();
        let parent = parent.map(Ref::new);
        db.insert(NewComment { id, parent }).await.unwrap();
    }
}

async fn ancestors(db: &Db, id: &str) -> Vec<String> {
    let category = db.get::<Category>(id).await.unwrap();
    let ancestors = category.ancestors.iter().map(|above| above.id().clone());
    ancestors.collect()
}

async fn assert_consistent(db: &Db) {
    db.wait_for_pending().await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.findings.is_empty(), "{report}");
    assert_all_chains(db, "at rest").await;
}

async fn assert_all_chains(db: &Db, when: &str) {
    assert_chains(&db.find::<Category>().all().await.unwrap(), when);
    assert_chains(&db.find::<Folder>().all().await.unwrap(), when);
    assert_chains(&db.find::<Comment>().all().await.unwrap(), when);
    for product in db.find::<Product>().all().await.unwrap() {
        let category = db.get::<Category>(&product.category).await.unwrap();
        assert_eq!(product.categories, category.ancestors, "{when}");
    }
}

/// Compares the ancestors of each document with the chain of parents. The integrity check does not take part.
fn assert_chains<T: TreeDocument<Id: Ord + Debug>>(all: &[T], when: &str) {
    let by_id: BTreeMap<_, _> = all
        .iter()
        .map(|document| (document.id(), document))
        .collect();
    for document in all {
        let (mut chain, mut next) = (Vec::new(), document.parent());
        while let Some(parent) = next {
            chain.insert(0, parent.id());
            assert!(
                chain.len() < all.len(),
                "{when}: a circle above {:?}",
                document.id()
            );
            next = by_id[parent.id()].parent();
        }
        let ancestors: Vec<_> = document.ancestors().iter().map(Ref::id).collect();
        assert_eq!(ancestors, chain, "{when}: {:?}", document.id());
    }
}

pub async fn a_tree_is_read_by_queries(fixture: Fixture) {
    let (db, recorder) = open(&fixture).await;
    assert_eq!(ancestors(&db, "tools").await, [""; 0]);
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);

    // The documents below, with conditions, a sort and a page: one query of the index.
    recorder.clear();
    let below = db
        .find::<Category>()
        .descendants_of("tools")
        .filter(|c| c.id().ne("drills"))
        .sort(|c| c.id().asc());
    let page = below.clone().page(1).await.unwrap();
    assert_eq!(page.items[0].id, "jigsaws");
    assert_eq!(recorder.operations().len(), 1);
    let next = below.page(1).after(page.next).await.unwrap();
    assert_eq!(next.items[0].id, "saws");
    let explain = db.find::<Category>().descendants_of("tools").explain();
    let explain = explain.await.unwrap();
    assert!(!explain.is_collection_scan, "{explain:?}");
    assert_eq!(explain.documents_examined, 3);

    // The ancestors, root first.
    recorder.clear();
    let (jigsaws, above) = db
        .get::<Category>("jigsaws")
        .with(|c| c.ancestors())
        .await
        .unwrap();
    assert_eq!(recorder.operations().len(), 2);
    let ids: Vec<_> = above
        .iter()
        .filter_map(|link| match link {
            Loaded(category) => Some(category.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["tools", "saws"]);
    assert_eq!(jigsaws.parent(), Some(&Ref::new("saws")));

    // The tree of documents, by levels.
    recorder.clear();
    let subtree = db.subtree::<Category>("tools").sort(|c| c.id().desc());
    let tools = subtree.await.unwrap();
    assert_eq!(recorder.operations().len(), 2);
    let ids = |nodes: &[TreeNode<Category>]| {
        let ids = nodes.iter().map(|node| node.document.id.clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&tools.children), ["saws", "drills"]);
    assert_eq!(ids(&tools.children[0].children), ["jigsaws"]);
    let shallow = db.subtree::<Category>("tools").depth(1).await.unwrap();
    assert_eq!(shallow.children.len(), 2);
    assert!(shallow.children.iter().all(|node| node.children.is_empty()));
    assert!(
        db.subtree::<Category>("none")
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert_consistent(&db).await;
}

pub async fn a_move_takes_the_documents_below_along(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let product = NewProduct {
        id: 1,
        category: Ref::new("jigsaws"),
    };
    db.insert(product).await.unwrap();
    let moved = db
        .update::<Category>("saws")
        .move_to("mowers")
        .returning_after()
        .await
        .unwrap();
    assert_eq!(moved.ancestors, [Ref::new("garden"), Ref::new("mowers")]);
    db.wait_for_pending().await.unwrap();
    assert_eq!(
        ancestors(&db, "jigsaws").await,
        ["garden", "mowers", "saws"]
    );
    let product = db.get::<Product>(1).await.unwrap();
    let expected = ["garden", "mowers", "saws"].map(Ref::new);
    assert_eq!(product.categories, expected);

    // A `set` and a save are moves, too.
    db.update::<Category>("mowers")
        .set(|c| c.parent(), Ref::new("tools"))
        .set(|c| c.rank(), 1)
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "mowers", "saws"]);
    let saved = db
        .modify::<Category>("mowers", |category| category.parent = None)
        .await
        .unwrap();
    assert!(saved.ancestors.is_empty());
    db.wait_for_pending().await.unwrap();
    assert_eq!(ancestors(&db, "jigsaws").await, ["mowers", "saws"]);
    db.update::<Category>("saws").move_to_root().await.unwrap();
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "jigsaws").await, ["saws"]);
    // The ancestors have no setter, and a save keeps them.
    let error = db
        .modify::<Category>("jigsaws", |category| category.ancestors.clear())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

pub async fn a_circle_is_refused(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    for parent in ["tools", "saws", "jigsaws"] {
        let error = db
            .update::<Category>("tools")
            .move_to(parent)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Invalid, Some("parent")),
            "{error}"
        );
    }
    let many = db.update_many::<Category>(|c| c.rank().eq(0));
    let error = many.move_to("jigsaws").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let missing = db.update::<Category>("tools").move_to("none").await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Dangling);
    let own = db.insert(category("own", Some("own"))).await;
    assert_eq!(own.unwrap_err().kind(), ErrorKind::Dangling);
    // A document deeper than `max`.
    let mut parent = "jigsaws".to_owned();
    for level in 3..=8 {
        let id = format!("level {level}");
        db.insert(category(&id, Some(&parent))).await.unwrap();
        parent = id;
    }
    let deep = db.insert(category("level 9", Some(&parent))).await;
    assert_eq!(deep.unwrap_err().kind(), ErrorKind::TooManyElements);
    let deep = db.update::<Category>("drills").move_to(&parent).await;
    assert_eq!(deep.unwrap_err().kind(), ErrorKind::TooManyElements);
    // A move checks the moved document only. The check finds deeper documents, which other writes can change.
    db.update::<Category>("tools")
        .move_to("garden")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let changed = db.modify::<Category>("level 8", |category| category.rank = 1);
    assert_eq!(changed.await.unwrap().ancestors.len(), 9);
    let report = db.check().await.unwrap();
    let found = report
        .findings
        .iter()
        .map(|finding| (&finding.id, &finding.kind));
    let found: Vec<_> = found.collect();
    assert!(
        matches!(&found[..], [(id, FindingKind::OutOfBounds { .. })] if id.as_str() == Some("level 8")),
        "{report}"
    );
    db.update::<Category>("tools").move_to_root().await.unwrap();
    assert_consistent(&db).await;
}

pub async fn concurrent_moves_make_no_circle(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    for _ in 0..3 {
        let (first, second) = tokio::join!(
            db.update::<Category>("tools").move_to("mowers"),
            db.update::<Category>("garden").move_to("jigsaws"),
        );
        assert!(
            first.is_err() || second.is_err(),
            "both moves make a circle"
        );
        for result in [first, second] {
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            }
        }
        assert_consistent(&db).await;
        for root in ["tools", "garden"] {
            db.update::<Category>(root).move_to_root().await.unwrap();
        }
    }
}

pub async fn delete_rules_keep_the_tree(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let error = db.delete::<Category>("saws").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    insert_chains(&db).await;
    db.delete::<Folder>(2).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let folder = db.get::<Folder>(3).await.unwrap();
    assert_eq!((folder.parent, folder.ancestors), (None, Vec::new()));
    assert_eq!(db.get::<Folder>(4).await.unwrap().ancestors, [Ref::new(3)]);
    db.delete::<Comment>(2).await.unwrap();
    let left = db.find::<Comment>().all().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_consistent(&db).await;
}

pub async fn wrong_ancestors_are_repaired(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let write = |id: &str, set: RawDocumentBuf| operation::UpdateOperation {
        collection: "categories".into(),
        filter: rawdoc! { "_id": id },
        change: operation::DocumentChange::operators(rawdoc! { "$set": set }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    // A root and a document below with consistent, wrong ancestors.
    let backend = fixture.backend();
    let wrong = [
        ("tools", vec!["mowers"]),
        ("saws", vec!["mowers", "tools"]),
        ("drills", vec![]),
    ];
    for (id, above) in wrong {
        let set = RawDocumentBuf::try_from(&doc! { "ancestors": above }).unwrap();
        backend.update(write(id, set)).await.unwrap();
    }
    let report = db.repair().apply().await.unwrap();
    assert!(report.is_clean() && !report.steps.is_empty(), "{report}");
    db.wait_for_pending().await.unwrap();
    assert_eq!(ancestors(&db, "saws").await, ["tools"]);
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);
    assert_consistent(&db).await;

    // A document that is older than the declaration reads as a root, until a repair.
    let mut older = write("jigsaws", RawDocumentBuf::new());
    older.change =
        operation::DocumentChange::operators(rawdoc! { "$unset": { "ancestors": true } });
    backend.update(older).await.unwrap();
    assert_eq!(ancestors(&db, "jigsaws").await, [""; 0]);
    assert!(db.repair().apply().await.unwrap().is_clean());
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);

    // A circle of another program: a finding that the application repairs. A move ends the circle.
    let set = rawdoc! { "parent": "jigsaws" };
    backend.update(write("tools", set)).await.unwrap();
    let report = db.repair().apply().await.unwrap();
    let circles = report.steps.iter().filter(|step| {
        matches!(step.finding.kind, FindingKind::Cycle { .. })
            && matches!(step.outcome, RepairOutcome::Impossible { .. })
    });
    assert!(circles.count() > 0, "{report}");
    db.update::<Category>("tools").move_to_root().await.unwrap();
    db.wait_for_pending().await.unwrap();
    db.repair().apply().await.unwrap();
    db.repair().apply().await.unwrap();
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);
}

pub async fn a_circle_is_told_from_wrong_ancestors(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let backend = fixture.backend();
    let write = async |id: &str, set: bson::Document| {
        let set = RawDocumentBuf::try_from(&set).unwrap();
        let update = operation::UpdateOperation {
            collection: "categories".into(),
            filter: rawdoc! { "_id": id },
            change: operation::DocumentChange::operators(rawdoc! { "$set": set }),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        backend.update(update).await.unwrap();
    };
    let cycles = async || {
        let report = db.check().await.unwrap();
        let cycles = report
            .findings
            .iter()
            .filter(|finding| matches!(finding.kind, FindingKind::Cycle { .. }));
        let cycles: Vec<_> = cycles
            .map(|finding| finding.id.as_str().unwrap().to_owned())
            .collect();
        (cycles, report.findings.len())
    };
    // The root claims to be below `saws`, which is wrong, and no circle.
    write("tools", doc! { "ancestors": ["saws"] }).await;
    let (found, findings) = cycles().await;
    assert!(found.is_empty() && findings > 1, "{found:?}");

    // A circle of `tools`, `saws` and `jigsaws`, with ancestors that do not show the circle. `drills` is below the circle.
    let outside = |parent: &str| doc! { "parent": parent, "ancestors": ["garden"] };
    write("tools", outside("jigsaws")).await;
    write("jigsaws", outside("saws")).await;
    let (found, findings) = cycles().await;
    assert!(!found.is_empty() && findings > found.len(), "{found:?}");
    assert!(!found.contains(&"drills".to_owned()), "{found:?}");
}

/// A document that another program has deleted, with documents that still refer to it as the parent.
pub async fn an_insert_above_its_descendants_is_refused(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let delete = operation::DeleteOperation {
        collection: "categories".into(),
        filter: rawdoc! { "_id": "saws" },
        multi: false,
        origin: Default::default(),
    };
    fixture.backend().delete(delete).await.unwrap();
    let below = db.insert(category("saws", Some("jigsaws"))).await;
    let error = below.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    db.insert(category("saws", Some("tools"))).await.unwrap();
    assert_consistent(&db).await;
}

pub async fn the_moved_document_is_the_checked_document(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let first = || db.update_first::<Category>(|c| c.rank().eq(0));
    let below_itself = first().sort(|c| c.id().desc()).move_to("jigsaws").await;
    let error = below_itself.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let moved = first().sort(|c| c.id().asc()).move_to("mowers").await;
    moved.unwrap().applied().unwrap();
    assert_eq!(ancestors(&db, "drills").await, ["garden", "mowers"]);
    // Without an order, any document can be the first. The result is a tree, or an error.
    let any = first().move_to("jigsaws").await;
    if let Err(error) = any {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_consistent(&db).await;
}

/// Version 1 had the parent in `above`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "topics", schema_version = 2, upgrade = upgrade_topic)]
struct Topic {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    parent: Option<Ref<Topic>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Topic>>,
}

fn upgrade_topic(_: u32, topic: &mut bson::Document) -> odm::Result<()> {
    let parent = topic.remove("above").unwrap_or_default();
    topic.insert("parent", parent);
    Ok(())
}

#[derive(Schema)]
#[schema(models(Topic))]
struct Forum;

pub async fn a_circle_through_older_documents_is_refused(fixture: Fixture) {
    let db = Database::<Forum>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let documents = [(1, None), (2, Some(1_i64)), (3, Some(2))];
    let documents = documents.map(|(id, above)| {
        let older = doc! { "_id": id as i64, "above": above, "ancestors": [] };
        RawDocumentBuf::try_from(&older).unwrap()
    });
    let insert = operation::InsertOperation {
        collection: "topics".into(),
        documents: documents.into(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let error = db.update::<Topic>(1).move_to(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let moved = db.update::<Topic>(3).move_to(1).await;
    match fixture.backend().capabilities().transactions {
        true => {
            moved.unwrap();
            let topic = db.get::<Topic>(3).await.unwrap();
            assert_eq!(topic.ancestors, [Ref::new(1)]);
        }
        // The upgrade of a stored reference needs a transaction.
        false => assert_eq!(moved.unwrap_err().kind(), ErrorKind::Unsupported),
    }
}

/// A document outside of the tree that rejects the new ancestors does not stop the move.
pub async fn a_rejected_copy_does_not_stop_a_move(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let mut index =
        operation::Index::new(vec![("categories".into(), operation::Direction::Ascending)]);
    index.unique = true;
    let backend = fixture.backend();
    backend
        .create_indexes("products", vec![index])
        .await
        .unwrap();
    for (id, category) in [(1, "drills"), (2, "mowers")] {
        let category = Ref::new(category);
        db.insert(NewProduct { id, category }).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    db.update::<Category>("drills")
        .move_to("garden")
        .await
        .unwrap();
    assert_eq!(ancestors(&db, "drills").await, ["garden"]);
    assert_eq!(
        db.get::<Product>(1).await.unwrap().categories,
        [Ref::new("tools")]
    );
    let pending = db.pending().await.unwrap();
    assert!(!pending.is_empty());

    // Without the rejecting document, the copy follows.
    db.delete::<Product>(2).await.unwrap();
    db.run_pending().await.unwrap();
    assert_consistent(&db).await;
}

/// The first dependents take a quarter of the lease, and the rest exceeds the limit of the write.
pub async fn a_slow_fan_out_continues_in_the_background(fixture: Fixture) {
    const PRODUCTS: i64 = 600;
    let faults = Arc::new(Faults::new(fixture.backend()));
    let options = Db::options().pending_lease(Duration::from_secs(1));
    let db = options.open_backend(faults.clone()).await.unwrap();
    insert_tree(&db).await;
    let products = (0..PRODUCTS).map(|id| NewProduct {
        id,
        category: Ref::new("tools"),
    });
    db.insert_many(products).await.unwrap();
    db.wait_for_pending().await.unwrap();

    let writes_children = |operation: &Operation| match operation {
        Operation::BulkWrite(bulk) => bulk.writes[0].write.collection() == "categories",
        _ => false,
    };
    faults.inject(1, writes_children, Fault::Delay(Duration::from_millis(300)));
    db.update::<Category>("tools")
        .move_to("garden")
        .await
        .unwrap();
    assert_eq!(faults.pending(), 0);
    let follows = async {
        let expected = [Ref::new("garden")];
        while db.get::<Product>(PRODUCTS - 1).await.unwrap().categories != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, follows)
        .await
        .expect("the fan-out continues without recovery");
    assert_consistent(&db).await;
}

/// A document with a copy beside the ancestors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sections")]
struct Section {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    parent: Option<Ref<Section>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Section>>,
    title: String,
    #[denormalize(from = parent.title)]
    parent_title: Option<String>,
}

#[derive(Schema)]
#[schema(models(Section))]
struct Manual;

pub async fn a_copy_beside_the_ancestors_stays_on_its_level(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Database::<Manual>::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(3))] {
        let (parent, title) = (parent.map(Ref::new), format!("section {id}"));
        db.insert(NewSection { id, parent, title }).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    let stored = async |id: i64| {
        let find = operation::FindOperation {
            collection: "sections".into(),
            filter: rawdoc! { "_id": id },
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        fixture.backend().find_all(find).await.unwrap()
    };
    let before = [stored(3).await, stored(4).await];
    db.update::<Section>(1)
        .set(|s| s.title(), "new")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let child = db.get::<Section>(2).await.unwrap();
    assert_eq!(child.parent_title.as_deref(), Some("new"));
    assert_eq!([stored(3).await, stored(4).await], before);

    // A move changes all levels.
    let parent = None;
    let title = "top".to_owned();
    db.insert(NewSection {
        id: 0,
        parent,
        title,
    })
    .await
    .unwrap();
    db.update::<Section>(1).move_to(0).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let last = db.get::<Section>(4).await.unwrap();
    assert_eq!(last.ancestors, [0, 1, 2, 3].map(Ref::new));
    let current = db.find::<Section>().current().sort(|s| s.id().asc());
    assert_eq!(current.all().await.unwrap()[4], last);
    assert!(db.check().await.unwrap().findings.is_empty());
}

/// The levels of a tree need no stack: the thread has half of the stack of Tokio's threads.
pub async fn a_deep_tree_needs_a_small_stack(fixture: Fixture) {
    const DEPTH: i64 = 100;
    const STACK_BYTES: usize = 1 << 20;
    let backend = fixture.backend();
    let work = async move {
        let db = Db::with_backend(backend);
        db.sync_indexes().await.unwrap();
        for id in 1..=DEPTH {
            let parent = (id > 1).then(|| Ref::new(id - 1));
            db.insert(NewFolder { id, parent }).await.unwrap();
            let parent = (id > 1).then(|| Ref::new(id - 1));
            db.insert(NewComment { id, parent }).await.unwrap();
        }
        let parent = None;
        db.insert(NewFolder { id: 0, parent }).await.unwrap();
        db.update::<Folder>(2).move_to(0).await.unwrap();
        db.wait_for_pending().await.unwrap();
        let last = db.get::<Folder>(DEPTH).await.unwrap();
        assert_eq!(last.ancestors.len(), DEPTH as usize - 1);
        assert_eq!(last.ancestors[0], Ref::new(0));
        assert_chains(&db.find::<Folder>().all().await.unwrap(), "after the move");

        let mut node = &db.subtree::<Folder>(0).await.unwrap();
        let mut levels = 0;
        while let Some(child) = node.children.first() {
            (node, levels) = (child, levels + 1);
        }
        assert_eq!(levels, DEPTH - 1);

        db.delete::<Comment>(1).await.unwrap();
        assert_eq!(db.find::<Comment>().count().await.unwrap(), 0);
        let report = db.check().await.unwrap();
        assert!(report.findings.is_empty(), "{report}");
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let thread = thread.spawn(move || runtime.block_on(work)).unwrap();
    // The driver's connections need the runtime of the test.
    let joined = tokio::task::spawn_blocking(move || thread.join());
    if let Err(panic) = joined.await.unwrap() {
        std::panic::resume_unwind(panic);
    }
}

pub async fn a_large_subtree_moves_in_the_background(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let leaves = (0..600).map(|leaf| category(&format!("leaf {leaf}"), Some("jigsaws")));
    db.insert_many(leaves).await.unwrap();
    db.update::<Category>("saws")
        .move_to("garden")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let below = db.find::<Category>().descendants_of("garden");
    assert_eq!(below.count().await.unwrap(), 603);
    assert_eq!(
        ancestors(&db, "leaf 599").await,
        ["garden", "saws", "jigsaws"]
    );
}

pub async fn several_documents_move_in_one_call(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    // A document and a document below: both become children of the new parent.
    let many = db.update_many::<Category>(|c| c.id().eq("saws") | c.id().eq("jigsaws"));
    assert_eq!(many.move_to("mowers").await.unwrap().modified, 2);
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "jigsaws").await, ["garden", "mowers"]);

    // The second write of a bulk sees the move of the first.
    let bulk = db
        .bulk()
        .add(db.update::<Category>("jigsaws").move_to("saws"))
        .add(db.update::<Category>("garden").move_to("drills"))
        .add(db.update::<Category>("tools").move_to("jigsaws"));
    let report = bulk.await.unwrap();
    assert_eq!(report.modified, 2);
    let error = report.into_result().unwrap_err();
    let failures: Vec<_> = error
        .failures()
        .map(|(position, failure)| (position, failure.kind()))
        .collect();
    assert_eq!(failures, [(2, ErrorKind::Invalid)]);
    assert_consistent(&db).await;
    let path = ["tools", "drills", "garden", "mowers", "saws"];
    assert_eq!(ancestors(&db, "jigsaws").await, path);

    // An upsert moves a document, and inserts a document below the parent of the insert struct.
    let update = db.update::<Category>("saws").move_to("tools");
    let saws = update.or_insert(category("saws", None)).await.unwrap();
    assert!(!saws.is_inserted());
    let update = db.update::<Category>("rakes").move_to("tools");
    let rakes = update
        .or_insert(category("rakes", Some("mowers")))
        .await
        .unwrap();
    assert!(rakes.is_inserted());
    let circle = db.update::<Category>("tools").move_to("jigsaws");
    let error = circle.or_insert(category("tools", None)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);
    assert_eq!(
        ancestors(&db, "rakes").await,
        ["tools", "drills", "garden", "mowers"]
    );

    // `unset` makes a root, as `move_to_root` does.
    db.update::<Category>("garden")
        .unset(|c| c.parent())
        .await
        .unwrap();
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "rakes").await, ["garden", "mowers"]);
}

pub async fn a_transaction_sees_its_own_moves(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let moved = db
        .transaction(async |tx| {
            tx.update::<Category>("tools").move_to("mowers").await?;
            assert_eq!(
                tx.get::<Category>("jigsaws").await?.ancestors.len(),
                4,
                "the documents below move in the transaction"
            );
            tx.update::<Category>("garden").move_to("jigsaws").await
        })
        .await;
    assert_eq!(moved.unwrap_err().kind(), ErrorKind::Invalid);
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "tools").await, [""; 0]);

    let bulk = db.transaction(async |tx| {
        let moves = [("saws", "drills"), ("mowers", "saws"), ("drills", "mowers")];
        let moves = moves.map(|(id, parent)| tx.update::<Category>(id).move_to(parent));
        tx.bulk().add_all(moves).all_or_nothing().await
    });
    assert_eq!(bulk.await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_consistent(&db).await;
    assert_eq!(ancestors(&db, "jigsaws").await, ["tools", "saws"]);
}

pub async fn an_insert_beside_a_move_is_below_the_moved_document(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    for round in 0..10 {
        let parent = ["garden", "tools"][round % 2];
        let ids = ["a", "b", "c"].map(|name| format!("{name} {round}"));
        let (moved, first, second, third) = tokio::join!(
            db.update::<Category>("saws").move_to(parent),
            db.insert(category(&ids[0], Some("jigsaws"))),
            db.insert(category(&ids[1], Some("saws"))),
            db.insert_many([category(&ids[2], Some("jigsaws"))]),
        );
        moved.unwrap();
        first.unwrap();
        second.unwrap();
        third.unwrap();
    }
    assert_consistent(&db).await;
}

pub async fn a_tree_has_scopes_and_soft_deletes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let tenant = |name: &str| -> Session<Shop, TenantId> { db.scope(&TenantId(name.into())) };
    let (a, b) = (tenant("a"), tenant("b"));
    let page = |id: i64, parent: Option<i64>| NewPage {
        id,
        parent: parent.map(Ref::new),
    };
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
        a.insert(page(id, parent)).await.unwrap();
    }
    b.insert(page(10, None)).await.unwrap();

    // Another tenant neither reads the tree, nor moves documents there.
    let error = b.update::<Page>(10).move_to(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    let error = b.insert(page(11, Some(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    let below = b.find::<Page>().descendants_of(1);
    assert_eq!(below.count().await.unwrap(), 0);
    assert!(b.subtree::<Page>(1).await.unwrap_err().is_not_found());

    // A soft-deleted document hides the documents below from the tree, and still takes part in the check of a move.
    a.delete::<Page>(2).await.unwrap();
    assert_eq!(a.find::<Page>().descendants_of(1).count().await.unwrap(), 1);
    assert!(a.subtree::<Page>(1).await.unwrap().children.is_empty());
    let error = a.update::<Page>(1).move_to(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = a.update::<Page>(4).move_to(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    a.update::<Page>(1).move_to(4).await.unwrap();
    db.wait_for_pending().await.unwrap();
    a.restore::<Page>(2).await.unwrap();
    assert_consistent(&db).await;
    assert_chains(
        &db.all_scopes().find::<Page>().all().await.unwrap(),
        "at rest",
    );
    let four = a.subtree::<Page>(4).await.unwrap();
    assert_eq!(four.children[0].children[0].children[0].document.id, 3);

    // The delete rule of a permanent delete reaches soft-deleted children.
    a.delete::<Page>(3).await.unwrap();
    let delete = a.delete::<Page>(2).permanently();
    assert_eq!(delete.await.unwrap_err().kind(), ErrorKind::Restricted);
    a.delete::<Page>(3).permanently().await.unwrap();
    a.delete::<Page>(2).permanently().await.unwrap();
    assert_consistent(&db).await;
}

/// A schema without copies of the ancestors in another model.
#[derive(Schema)]
#[schema(models(Category))]
struct Catalog;

/// The operations of the round-trip table in `book/src/trees.md`, in sequence.
const COST_ROWS: &[CostRow<Catalog>] = &[
    read_row!("`descendants_of`, for any depth", |db| {
        db.find::<Category>().descendants_of("tools").all()
    }),
    read_row!("`get` with the ancestors", |db| {
        db.get::<Category>("jigsaws").with(|c| c.ancestors())
    }),
    read_row!("`subtree`, for any depth", |db| {
        db.subtree::<Category>("tools")
    }),
    write_row!("insert below a parent", |db| {
        db.insert(category("bow saws", Some("saws")))
    }),
    write_row!("move of a document without documents below", |db| {
        db.update::<Category>("jigsaws").move_to("drills")
    }),
    write_row!("move of a document with 12 documents below", |db| {
        db.update::<Category>("tools").move_to("mowers")
    }),
    write_row!("move of the same document to the root", |db| {
        db.update::<Category>("tools").move_to_root()
    }),
    write_row!("update of a plain field in a tree", |db| {
        db.update::<Category>("tools").set(|c| c.rank(), 1)
    }),
];

pub async fn operations_of_trees_match_the_book(fixture: Fixture) {
    let column = match fixture.backend().capabilities().transactions {
        true => 2,
        false => 3,
    };
    let recorder = Recorder::new(fixture.backend());
    let db = Database::<Catalog>::with_backend(Arc::new(recorder.clone()));
    insert_tree(&Db::with_backend(fixture.backend())).await;
    let leaves = (0..8).map(|leaf| category(&format!("leaf {leaf}"), Some("saws")));
    db.insert_many(leaves).await.unwrap();
    // The first fan-out also checks the indexes.
    db.update::<Category>("garden")
        .move_to("drills")
        .await
        .unwrap();
    db.update::<Category>("garden")
        .move_to_root()
        .await
        .unwrap();
    let (mut counted, mut lists) = (Vec::new(), OperationLists::new(&fixture).in_any_order());
    for row in COST_ROWS {
        db.wait_for_pending().await.unwrap();
        let count = lists.run_row(row, &db, &recorder).await;
        counted.push((row.name.to_owned(), count));
    }
    let page = include_str!("../../../../../book/src/trees.md");
    let (_, table) = page.split_once("## Round trips").expect("a table");
    let (table, _) = table.split_once("\n## ").expect("the next section");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let documented = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let count = cells[column].parse::<usize>().expect("a number");
        (cells[1].to_owned(), count)
    });
    assert_eq!(counted, documented.collect::<Vec<_>>());
    lists.assert_match_the_book();
}

const WRITES: &[Write<Shop>] = &[
    ("insert", |db| {
        Box::pin(async move {
            db.insert(category("bow saws", Some("saws")))
                .await
                .map(drop)
        })
    }),
    ("move", |db| {
        Box::pin(async move {
            db.update::<Category>("saws")
                .move_to("mowers")
                .await
                .map(drop)
        })
    }),
    ("move that makes a circle", |db| {
        Box::pin(async move {
            db.update::<Category>("tools")
                .move_to("jigsaws")
                .await
                .map(drop)
        })
    }),
    ("move of two documents", |db| {
        Box::pin(async move {
            let many = db.update_many::<Category>(|c| c.id().eq("saws") | c.id().eq("jigsaws"));
            many.move_to("garden").await.map(drop)
        })
    }),
    ("save that makes a root", |db| {
        Box::pin(async move {
            let save = db.modify::<Category>("saws", |category| category.parent = None);
            save.await.map(drop)
        })
    }),
    ("delete that makes roots", |db| {
        Box::pin(async move { db.delete::<Folder>(2).await.map(drop) })
    }),
    ("delete with the documents below", |db| {
        Box::pin(async move { db.delete::<Comment>(2).await.map(drop) })
    }),
];

pub async fn trees_converge_after_crashes(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                insert_tree(db).await;
                let product = NewProduct {
                    id: 1,
                    category: Ref::new("jigsaws"),
                };
                db.insert(product).await.unwrap();
                insert_chains(db).await;
            })
        },
        may_find: |_| false,
        agrees: |db, when| Box::pin(assert_all_chains(db, when)),
    };
    crashes.run(&fixture).await;
}
