//! Tests of overflow arrays of references: inverses of any length, and joins over spilled references.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{DocumentChange, FindOperation, InsertOperation, Operation, UpdateOperation},
    },
    bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};
use odm_tests::assert_clean;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

/// A package. Any number of packages can depend on a package, so the inverse overflows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "packages")]
struct Package {
    #[serde(rename = "_id")]
    id: i64,
    size: i64,
    #[reference(inverse = required_by, on_delete = restrict, max = 10)]
    depends: Vec<Ref<Package>>,
    #[reference(inverse_of = depends, overflow(after = 3, into = "more_required_by", owner = "package"))]
    required_by: Overflow<Ref<Package>>,
    #[reference(inverse = members, on_delete = pull, max = 5)]
    groups: Vec<Ref<Group>>,
    #[reference(inverse = stars, on_delete = nullify)]
    star: Option<Ref<Group>>,
}

/// A group with two inverses from the same model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "groups", soft_delete)]
struct Group {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "packages")]
    #[reference(inverse_of = groups, overflow(after = 2, into = "more_members", flag = "more_packages"))]
    members: Overflow<Ref<Package>>,
    #[reference(inverse_of = star, overflow(after = 2, into = "more_stars", flag = "more_stars"))]
    stars: Overflow<Ref<Package>>,
    deleted_at: Option<DateTime>,
}

/// A tree of folders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "folders")]
struct Folder {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = children, on_delete = cascade)]
    parent: Option<Ref<Folder>>,
    #[reference(inverse_of = parent, overflow(after = 2, into = "more_children"))]
    children: Overflow<Ref<Folder>>,
}

/// A shelf with an inverse that does not overflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shelves")]
struct Shelf {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = shelf, max = 10)]
    volumes: Vec<Ref<Volume>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "volumes")]
struct Volume {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = volumes)]
    shelf: Ref<Shelf>,
}

/// A list of references without a delete rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "lists")]
struct List {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(overflow(after = 2, into = "more_listed"))]
    packages: Overflow<Ref<Package>>,
}

#[derive(Schema)]
#[schema(models(Package, Group, Folder, List, Shelf, Volume))]
struct Index;
type Db = odm::Database<Index>;

fn package(id: i64, depends: &[i64]) -> NewPackage {
    NewPackage {
        id,
        size: id % 7,
        depends: refs(depends.iter().copied()),
        groups: Vec::new(),
        star: None,
    }
}

fn refs<T: Document<Id = i64>>(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<T>> {
    ids.into_iter().map(Ref::new).collect()
}

fn ids<T: Document<Id = i64>>(refs: &[Ref<T>]) -> Vec<i64> {
    refs.iter().map(|one| *one.id()).collect()
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

/// Inserts package 1 and the packages 2 to 10 that depend on package 1.
async fn insert_dependent_packages(db: &Db) {
    db.insert(package(1, &[])).await.unwrap();
    let others = (2..=10).map(|id| package(id, &[1]));
    db.insert_many(others).await.unwrap();
}

async fn required_by(db: &Db, id: i64) -> Vec<i64> {
    let all = db.get::<Package>(id).elements(|p| p.required_by());
    ids(&all.all().await.unwrap())
}

async fn stored_documents(
    fixture: &Fixture,
    collection: &'static str,
    filter: RawDocumentBuf,
) -> Vec<BsonDocument> {
    let find = FindOperation {
        collection: collection.into(),
        filter,
        projection: None,
        sort: Some(rawdoc! { "seq": 1 }),
        limit: None,
        options: Default::default(),
    };
    let found = fixture.backend().find_all(find).await.unwrap();
    let found = found.iter().map(|raw| BsonDocument::try_from(&**raw));
    found.collect::<Result<_, _>>().unwrap()
}

/// Asserts that each inverse lists exactly the referrers, each once, and that the check finds no fault.
async fn assert_inverses_agree(db: &Db) {
    let packages = db.find::<Package>().all().await.unwrap();
    let mut required: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    let (mut members, mut stars) = (required.clone(), required.clone());
    for package in &packages {
        for on in &package.depends {
            required.entry(*on.id()).or_default().insert(package.id);
        }
        for group in &package.groups {
            members.entry(*group.id()).or_default().insert(package.id);
        }
        if let Some(group) = &package.star {
            stars.entry(*group.id()).or_default().insert(package.id);
        }
    }
    let same = |listed: &[Ref<Package>], truth: Option<&BTreeSet<i64>>, message: String| {
        let mut listed = ids(listed);
        listed.sort_unstable();
        let truth: Vec<_> = truth.into_iter().flatten().copied().collect();
        assert_eq!(listed, truth, "{message}");
    };
    for package in &packages {
        let get = || db.get::<Package>(package.id);
        let all = get().elements(|p| p.required_by()).all().await.unwrap();
        let now = get().await.unwrap();
        assert_eq!(now.required_by.len(), all.len() as u64);
        assert!(now.required_by.resident().len() <= 3);
        let truth = required.get(&package.id);
        same(&all, truth, format!("package {}", package.id));
    }
    for group in db.find::<Group>().with_deleted().all().await.unwrap() {
        let get = || db.get::<Group>(group.id).with_deleted();
        let all = get().elements(|g| g.members()).all().await.unwrap();
        same(&all, members.get(&group.id), format!("group {}", group.id));
        let all = get().elements(|g| g.stars()).all().await.unwrap();
        same(&all, stars.get(&group.id), format!("stars of {}", group.id));
    }
    assert_clean(db).await;
}

pub async fn an_inverse_overflows(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;

    let first = db.get::<Package>(1).await.unwrap();
    assert_eq!(ids(first.required_by.resident()), [2, 3, 4]);
    assert_eq!(first.required_by.len(), 9);
    assert_eq!(required_by(&db, 1).await, Vec::from_iter(2..=10));
    assert_inverses_agree(&db).await;

    let document = stored_documents(&fixture, "packages", rawdoc! { "_id": 1_i64 })
        .await
        .remove(0);
    assert_eq!(document.get_array("required_by").unwrap().len(), 3);
    assert!(document.get_bool("has_extras").unwrap());
    // A typical document stores no field of the overflow array.
    let typical = stored_documents(&fixture, "packages", rawdoc! { "_id": 2_i64 })
        .await
        .remove(0);
    assert!(!typical.contains_key("has_extras"));
    let metadata = typical.get_document("_odm").ok();
    assert!(metadata.is_none_or(|metadata| !metadata.contains_key("overflow")));

    // More elements than the 8 of a tail.
    let others = (11..=60).map(|id| package(id, &[1, 2]));
    db.insert_many(others).await.unwrap();
    let chunks = stored_documents(&fixture, "more_required_by", rawdoc! { "package": 1_i64 }).await;
    assert!(!chunks.is_empty());
    assert_eq!(required_by(&db, 1).await.len(), 59);
    assert_eq!(required_by(&db, 2).await.len(), 50);
    assert_inverses_agree(&db).await;
}

pub async fn joins_load_spilled_references(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;
    db.insert_many((11..=20).map(|id| package(id, &[2])))
        .await
        .unwrap();

    let found = db
        .find::<Package>()
        .filter(|p| p.id().lte(2))
        .sort(|p| p.id().asc())
        .with(|p| p.required_by())
        .all()
        .await
        .unwrap();
    let joined: Vec<Vec<_>> = found
        .iter()
        .map(|(_, by)| by.loaded().map(|package| package.id).collect())
        .collect();
    assert_eq!(joined, [Vec::from_iter(2..=10), Vec::from_iter(11..=20)]);

    #[derive(Debug, Deserialize, Projection)]
    #[projection(of = Package)]
    struct Size {
        size: i64,
    }
    // A join in a projection: the three largest of the large packages, with a nested join. The projection has no field for the
    // references.
    let found = db
        .find::<Package>()
        .filter(|p| p.id().eq(1))
        .select::<Size>()
        .with(|p| {
            let large = p.required_by().filter(|by| by.size().gte(2));
            large
                .sort(|by| (by.size().desc(), by.id().asc()))
                .limit(3)
                .with(|by| by.required_by().limit(2))
        })
        .first()
        .await
        .unwrap();
    let (size, by) = found.unwrap();
    assert_eq!(size.size, 1);
    let by: Vec<_> = by
        .loaded()
        .map(|(package, by)| {
            (
                package.id,
                by.loaded().map(|package| package.id).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(by, [(6, vec![]), (5, vec![]), (4, vec![])]);

    let get = || db.get::<Package>(2).elements(|p| p.required_by());
    assert!(get().contains(&Ref::new(20)).await.unwrap());
    assert!(!get().contains(&Ref::new(3)).await.unwrap());
    assert_eq!(ids(&get().page(8, 5).await.unwrap()), [19, 20]);
}

/// A join with a limit reads only as many targets as needed, and returns the right targets.
pub async fn joins_read_only_up_to_the_limit(fixture: Fixture) {
    const LAST: i64 = 12_000;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    // Every tenth of the first thousand packages is missing. The size decreases with the id.
    let packages = (1..=LAST).filter(|id| *id > 1_000 || id % 10 != 0);
    let packages = packages.map(
        |id| rawdoc! { "_id": id, "size": LAST - id, "depends": [], "required_by": [], "groups": [], "star": null },
    );
    let packages = InsertOperation {
        collection: "packages".into(),
        documents: packages.collect(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(packages).await.unwrap();
    let all = refs(1..=LAST);
    db.insert(List {
        id: 1,
        packages: all.into(),
    })
    .await
    .unwrap();
    db.insert(List {
        id: 2,
        packages: refs([7, 8]).into(),
    })
    .await
    .unwrap();

    let lists = || db.find::<List>().sort(|l| l.id().asc());
    let ids = |lists: Vec<(List, Links<Package>)>| {
        let each = lists
            .iter()
            .map(|(_, by)| by.loaded().map(|package| package.id).collect());
        each.collect::<Vec<Vec<_>>>()
    };
    let take_id_counts = || {
        let finds = recorder
            .operations()
            .into_iter()
            .filter_map(|operation| match operation {
                Operation::Find(find) if find.collection.as_ref() == "packages" => Some(find),
                _ => None,
            });
        let keys = finds.map(|find| {
            let keys = find
                .filter
                .get_document("_id")
                .unwrap()
                .get_array("$in")
                .unwrap();
            keys.into_iter().count()
        });
        keys.collect::<Vec<_>>()
    };

    recorder.clear();
    let first = lists()
        .with(|l| l.packages().limit(12))
        .all()
        .await
        .unwrap();
    let expected = [vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13], vec![7, 8]];
    assert_eq!(ids(first), expected);
    assert_eq!(take_id_counts(), [100, 12]);

    // None of the first targets matches the filter.
    recorder.clear();
    let small = lists().with(|l| l.packages().filter(|p| p.size().lt(3_000)).limit(2));
    assert_eq!(
        ids(small.all().await.unwrap()),
        [vec![9_001, 9_002], vec![]]
    );
    assert_eq!(take_id_counts(), [100, 10_000, 4]);

    // A sort needs more targets than a single query can read, so that odm merges the sorted results.
    recorder.clear();
    let smallest = lists().with(|l| l.packages().sort(|p| p.size().asc()).limit(3));
    assert_eq!(
        ids(smallest.all().await.unwrap()),
        [vec![LAST, LAST - 1, LAST - 2], vec![8, 7]]
    );
    assert_eq!(take_id_counts(), [9_997, 2_006, 5]);
    let largest = lists().with(|l| {
        l.packages()
            .filter(|p| p.size().gt(0))
            .sort(|p| p.size().desc())
            .limit(10)
    });
    let expected = [vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 11], vec![7, 8]];
    assert_eq!(ids(largest.all().await.unwrap()), expected);
}

pub async fn random_writes_maintain_overflow_inverses(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let groups = (1..=3).map(|id| NewGroup { id });
    db.insert_many(groups).await.unwrap();
    db.insert_many((1..=4).map(|id| package(id, &[])))
        .await
        .unwrap();
    let mut next = 5;
    for step in 0..150 {
        let any = |random: &mut ChaCha8Rng| random.random_range(1..next.max(2));
        let (one, other) = (any(&mut random), random.random_range(1..=4));
        let group = random.random_range(1..=3);
        let done = match random.random_range(0..12) {
            0..4 => {
                let count = random.random_range(1..15);
                let new: Vec<_> = (next..next + count)
                    .map(|id| {
                        let mut new = package(id, &[1, 1 + id % 4]);
                        new.groups = refs([group, 1]);
                        new.star = (id % 3 == 0).then(|| Ref::new(group));
                        new
                    })
                    .collect();
                next += count;
                db.insert_many(new).await.map(drop)
            }
            4 => {
                let update = db
                    .update::<Package>(one)
                    .push(|p| p.depends(), Ref::new(other));
                update.await.map(drop)
            }
            5 => {
                let update = db
                    .update::<Package>(one)
                    .pull(|p| p.depends(), Ref::new(other));
                update.await.map(drop)
            }
            6 => {
                let update = db
                    .update::<Package>(one)
                    .set(|p| p.depends(), refs([other, 2]));
                update.await.map(drop)
            }
            7 => {
                let some = db.update_many::<Package>(|p| p.id().gte(one));
                some.set(|p| p.star(), Ref::new(group)).await.map(drop)
            }
            8 => db.delete::<Package>(one).await.map(drop),
            9 => {
                let some =
                    db.delete_many::<Package>(|p| p.id().gt(one.max(4)) & p.size().eq(group));
                some.await.map(drop)
            }
            10 => {
                let modified = db.modify::<Package>(one, |package| {
                    package.groups = refs([group]);
                    package.star = None;
                });
                modified.await.map(drop)
            }
            _ => db
                .transaction(async |tx| {
                    tx.insert(package(next, &[other])).await?;
                    let update = tx
                        .update::<Package>(next)
                        .push(|p| p.depends(), Ref::new(one));
                    update.await.map(drop)
                })
                .await
                .inspect(|()| next += 1),
        };
        if let Err(error) = done {
            let kinds = [
                ErrorKind::NotFound,
                ErrorKind::Restricted,
                ErrorKind::Dangling,
                ErrorKind::TooManyElements,
                ErrorKind::Unsupported,
            ];
            assert!(kinds.contains(&error.kind()), "step {step}: {error}");
        }
        if step % 10 == 9 {
            assert_inverses_agree(&db).await;
        }
    }
    let first = db.get::<Package>(1).await.unwrap();
    assert!(first.required_by.len() > 20, "{}", first.required_by.len());
}

pub async fn deletes_check_spilled_referrers(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;

    let kept = db.delete::<Package>(1).await.unwrap_err();
    assert_eq!(kept.kind(), ErrorKind::Restricted);
    assert!(
        kept.to_string()
            .contains("9 documents in `packages` reference the document"),
        "{kept}"
    );
    // The delete includes all referrers, so the restrict rule allows the delete.
    db.delete_many::<Package>(|p| p.id().lt(2))
        .await
        .unwrap_err();
    db.delete_many::<Package>(|p| p.id().gt(3)).await.unwrap();
    assert_eq!(required_by(&db, 1).await, [2, 3]);
    assert_inverses_agree(&db).await;
    db.delete_many::<Package>(|p| p.id().gt(0)).await.unwrap();
    assert!(
        stored_documents(&fixture, "more_required_by", rawdoc! {})
            .await
            .is_empty()
    );

    db.insert(NewGroup { id: 1 }).await.unwrap();
    let members = (1..=9).map(|id| NewPackage {
        groups: refs([1]),
        star: Some(Ref::new(1)),
        ..package(id, &[])
    });
    db.insert_many(members).await.unwrap();
    assert_inverses_agree(&db).await;
    let all = db.delete::<Group>(1).permanently();
    all.await.unwrap();
    for package in db.find::<Package>().all().await.unwrap() {
        assert!(
            package.groups.is_empty() && package.star.is_none(),
            "{package:?}"
        );
    }
    assert_clean(&db).await;

    let folder = |id, parent: Option<i64>| NewFolder {
        id,
        parent: parent.map(Ref::new),
    };
    db.insert(folder(1, None)).await.unwrap();
    db.insert_many((2..=12).map(|id| folder(id, Some(1))))
        .await
        .unwrap();
    db.insert_many((13..=30).map(|id| folder(id, Some(id - 10))))
        .await
        .unwrap();
    let all = db.delete::<Folder>(1).dry_run().await.unwrap();
    assert_eq!(all.to_string(), "30 of folders would be deleted\n");
    db.delete::<Folder>(3).await.unwrap();
    let children = db.get::<Folder>(1).elements(|f| f.children());
    assert_eq!(ids(&children.all().await.unwrap()).len(), 10);
    assert_clean(&db).await;
    db.delete::<Folder>(1).await.unwrap();
    assert_eq!(db.find::<Folder>().count().await.unwrap(), 0);
    assert!(
        stored_documents(&fixture, "more_children", rawdoc! {})
            .await
            .is_empty()
    );
    assert_clean(&db).await;
}

pub async fn dangling_references_are_rejected(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;
    let nowhere = db.insert(package(20, &[1, 99])).await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Dangling);
    db.insert(NewGroup { id: 1 }).await.unwrap();
    db.delete::<Group>(1).await.unwrap();
    let deleted = db.update::<Package>(2).set(|p| p.star(), Ref::new(1));
    assert_eq!(deleted.await.unwrap_err().kind(), ErrorKind::Dangling);
    assert_inverses_agree(&db).await;
}

pub async fn references_without_a_rule_overflow(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;
    let packages = Overflow::from(refs(2..=6));
    db.insert(List { id: 1, packages }).await.unwrap();
    db.update::<List>(1)
        .push(|l| l.packages(), Ref::new(99))
        .await
        .unwrap();
    db.update::<List>(1)
        .add_to_set(|l| l.packages(), Ref::new(3))
        .await
        .unwrap();
    db.update::<List>(1)
        .pull(|l| l.packages(), Ref::new(5))
        .await
        .unwrap();

    let found = db
        .find::<List>()
        .with(|l| l.packages().with(|p| p.required_by()))
        .first()
        .await
        .unwrap();
    let (list, packages) = found.unwrap();
    assert_eq!(list.packages.len(), 5);
    let loaded: Vec<_> = packages.loaded().map(|(package, _)| package.id).collect();
    assert_eq!(loaded, [2, 3, 4, 6]);
    assert_eq!(
        packages.missing().map(|one| *one.id()).collect::<Vec<_>>(),
        [99]
    );

    let arrays = db.arrays::<List>();
    let with_it = arrays.any(|l| l.packages(), |package| package.eq(Ref::new(6)));
    let with_it = with_it.await.unwrap();
    let found = db.find::<List>().filter(|_| with_it).all().await.unwrap();
    assert_eq!(found.len(), 1);

    // A join and the check report the dangling reference: without a rule, odm does not prevent a dangling reference.
    let report = db.check().await.unwrap();
    let wrong: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        wrong,
        ["lists 1, `packages.4`: refers to 99 in packages, which does not exist"]
    );
    let pending = db.pending().await.unwrap();
    assert!(pending.is_empty(), "{pending}");
}

pub async fn concurrent_writes_keep_inverses_consistent(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many((1..=3).map(|id| package(id, &[])))
        .await
        .unwrap();
    db.insert(NewGroup { id: 1 }).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_i64 {
        let db = db.clone();
        tasks.spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(task.unsigned_abs());
            for step in 0..12 {
                let id = 10 + task * 100 + step;
                let dependency = random.random_range(1..=3);
                let mut new = package(id, &[dependency, 1]);
                new.groups = refs([1]);
                let inserted = db.insert(new).await.map(drop);
                let is_there = inserted.is_ok();
                let mut done = vec![inserted];
                if random.random_bool(0.4) && is_there {
                    let moved = db.update::<Package>(id).set(|p| p.depends(), refs([2]));
                    done.push(moved.await.map(drop));
                }
                if random.random_bool(0.3) && is_there {
                    done.push(db.delete::<Package>(id).await.map(drop));
                }
                for done in done {
                    if let Err(error) = done {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    assert_inverses_agree(&db).await;
    assert!(db.get::<Package>(1).await.unwrap().required_by.has_more());
}

/// The cost of an additional reference does not depend on the number of existing references to the document.
pub async fn operations_of_a_reference_to_an_outlier(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    db.insert_many((1..=2).map(|id| package(id, &[])))
        .await
        .unwrap();
    let has_transactions = fixture.backend().capabilities().transactions;
    let mut next = 3;
    let mut costs = Vec::new();
    for until in [20, 200, 600] {
        let others = (next..until).map(|id| package(id, &[1]));
        db.insert_many(others).await.unwrap();
        // This update makes room in the tail for the following inserts.
        db.update::<Package>(until - 1)
            .set(|p| p.size(), 0)
            .await
            .unwrap();
        let mut least = [usize::MAX; 3];
        for id in until..until + 10 {
            recorder.clear();
            db.insert(package(id, &[1])).await.unwrap();
            let inserted = recorder.operations().len();
            recorder.clear();
            let moved = db.update::<Package>(id).set(|p| p.depends(), refs([2]));
            moved.await.unwrap();
            let moved = recorder.operations().len();
            db.update::<Package>(id)
                .set(|p| p.depends(), refs([1]))
                .await
                .unwrap();
            recorder.clear();
            db.delete::<Package>(id).await.unwrap();
            let deleted = recorder.operations().len();
            for (least, cost) in least.iter_mut().zip([inserted, moved, deleted]) {
                *least = cost.min(*least);
            }
        }
        next = until + 10;
        costs.push(least);
    }
    // The numbers of operations of an insert, a move away and a delete.
    let expected = match has_transactions {
        true => [7, 11, 14],
        false => [10, 18, 17],
    };
    assert_eq!(costs, [expected; 3]);

    // A reference to a document without spilled elements costs the same as a reference to a plain inverse.
    db.insert(NewGroup { id: 1 }).await.unwrap();
    recorder.clear();
    let mut new = package(9_000, &[]);
    new.star = Some(Ref::new(1));
    db.insert(new).await.unwrap();
    let typical = recorder.operations().len();
    db.insert(NewShelf { id: 1 }).await.unwrap();
    recorder.clear();
    let shelf = Ref::new(1);
    db.insert(Volume { id: 1, shelf }).await.unwrap();
    let plain = recorder.operations().len();
    assert_eq!(typical, plain);
}

/// An insert appends to a spilled inverse without a search. Two inverses of one target change in the same write: one in the shared
/// bulk write, and one separately. Neither has a referrer twice.
pub async fn inserted_referrers_are_added_once(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many((1..=2).map(|id| NewGroup { id }))
        .await
        .unwrap();
    let in_both = |id: i64, group: i64| NewPackage {
        groups: refs([group]),
        star: Some(Ref::new(group)),
        ..package(id, &[])
    };
    // The members of group 1 are spilled, the stars are not.
    let members = (10..20).map(|id| NewPackage {
        groups: refs([1]),
        ..package(id, &[])
    });
    db.insert_many(members).await.unwrap();
    db.insert(in_both(30, 1)).await.unwrap();
    db.insert_many((31..35).map(|id| in_both(id, 1 + id % 2)))
        .await
        .unwrap();
    // Both inverses are spilled.
    db.insert_many((40..50).map(|id| in_both(id, 1)))
        .await
        .unwrap();
    let lists = async |id: i64| {
        let group = || db.get::<Group>(id);
        let members = group().elements(|g| g.members()).all().await.unwrap();
        let stars = group().elements(|g| g.stars()).all().await.unwrap();
        [members, stars].map(|list| {
            let mut ids: Vec<_> = list.iter().map(|package| *package.id()).collect();
            ids.sort_unstable();
            ids
        })
    };
    let with_star: Vec<i64> = [30, 32, 34].into_iter().chain(40..50).collect();
    let members: Vec<i64> = (10..20).chain(with_star.iter().copied()).collect();
    // Packages 31 and 33 are in group 2, because their number is odd.
    assert_eq!(lists(1).await, [members, with_star]);
    assert_eq!(lists(2).await, [vec![31, 33], vec![31, 33]]);

    // A missing target is found, although another target has two changes.
    let missing = [in_both(60, 1), package(61, &[777])];
    let error = db.insert_many(missing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling);
    let groups = [NewPackage {
        groups: refs([1, 999]),
        ..in_both(62, 1)
    }];
    let error = db.insert_many(groups).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling);
    assert_clean(&db).await;
}

/// An update that removes many entries from an inverse removes the entries in batches of at most 1,000.
pub async fn large_inverse_removals_run_in_batches(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    let packages = (1..=2_500_i64).map(|id| rawdoc! { "_id": id, "size": 0_i64, "depends": [], "required_by": [], "groups": [1_i64], "star": null });
    let members: Vec<_> = (1..=2_500_i64).map(Bson::Int64).collect();
    let group = doc! { "_id": 1_i64, "packages": members, "stars": [], "deleted_at": null };
    let group = vec![RawDocumentBuf::try_from(&group).unwrap()];
    for (collection, documents) in [("packages", packages.collect()), ("groups", group)] {
        let insert = InsertOperation {
            collection: collection.into(),
            documents,
            ordered: true,
            origin: Default::default(),
        };
        fixture.backend().insert(insert).await.unwrap();
    }
    assert_eq!(db.arrays::<Group>().spill().await.unwrap(), 1);
    assert_inverses_agree(&db).await;
    recorder.clear();
    let leave = db.update_many::<Package>(|p| p.id().gt(5));
    leave.set(|p| p.groups(), []).await.unwrap();
    for operation in recorder.operations() {
        if let Operation::Update(update) = operation
            && let DocumentChange::Operators { update, .. } = &update.change
            && let Ok(pulled) = update.get_document("$pullAll")
            && let Ok(members) = pulled.get_array("packages")
        {
            let members = members.into_iter().count();
            assert!(members <= 1_000, "{members}");
        }
    }
    assert_inverses_agree(&db).await;
}

/// An inverse from before the overflow rule spills, and a short inverse folds back.
pub async fn existing_inverses_spill_and_fold(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;
    let resident = UpdateOperation {
        collection: "packages".into(),
        filter: rawdoc! { "_id": 1_i64 },
        change: DocumentChange::operators(rawdoc! {
            "$set": { "required_by": [2_i64, 3_i64, 4_i64, 5_i64, 6_i64, 7_i64, 8_i64, 9_i64, 10_i64] },
            "$unset": { "_odm.overflow": "", "has_extras": "" },
        }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(resident).await.unwrap();
    assert_eq!(db.arrays::<Package>().spill().await.unwrap(), 1);
    assert!(db.get::<Package>(1).await.unwrap().required_by.has_more());
    assert_inverses_agree(&db).await;

    db.delete_many::<Package>(|p| p.id().gt(3)).await.unwrap();
    assert_eq!(db.arrays::<Package>().fold().await.unwrap(), 1);
    let folded = db.get::<Package>(1).await.unwrap();
    assert!(!folded.required_by.has_more());
    assert_inverses_agree(&db).await;
    db.insert_many((20..40).map(|id| package(id, &[1])))
        .await
        .unwrap();
    assert_inverses_agree(&db).await;
}

const WRITES: &[Write<Index>] = &[
    ("an insert", |db| {
        Box::pin(async move { db.insert(package(20, &[1, 2])).await.map(drop) })
    }),
    ("an insert of many", |db| {
        Box::pin(async move {
            let new = (20..32).map(|id| package(id, &[1, 3]));
            db.insert_many(new).await.map(drop)
        })
    }),
    ("an update", |db| {
        Box::pin(async move {
            let moved = db.update::<Package>(9).set(|p| p.depends(), refs([2, 3]));
            moved.await.map(drop)
        })
    }),
    ("a deletion", |db| {
        Box::pin(async move { db.delete::<Package>(8).await.map(drop) })
    }),
];

pub async fn crashes_keep_inverses_consistent(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                insert_dependent_packages(db).await;
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                assert_inverses_agree(db).await;
                let second = db.insert(package(99, &[1, 2, 3])).await;
                second.unwrap_or_else(|error| panic!("{when}: {error}"));
                assert_inverses_agree(db).await;
            })
        },
    };
    crashes.run(&fixture).await;
}

pub async fn the_check_reads_spilled_entries(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_dependent_packages(&db).await;
    db.insert_many((11..=30).map(|id| package(id, &[1])))
        .await
        .unwrap();
    let chunks = stored_documents(&fixture, "more_required_by", rawdoc! { "package": 1_i64 }).await;
    let first = chunks.first().unwrap();
    let elements = first.get_array("required_by_extra").unwrap();
    let (gone, kept) = (elements[0].as_i64().unwrap(), elements[1].as_i64().unwrap());
    let change = async |collection: &'static str, filter, update| {
        let write = UpdateOperation {
            collection: collection.into(),
            filter,
            change: DocumentChange::operators(update),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        fixture.backend().update(write).await.unwrap();
    };
    // An entry is missing, an entry is duplicated, and an entry has no reference.
    let chunk_filter = || rawdoc! { "package": 1_i64, "required_by_extra": gone };
    change(
        "more_required_by",
        chunk_filter(),
        rawdoc! { "$set": { "required_by_extra.$": kept } },
    )
    .await;
    let stranger = rawdoc! { "$set": { "depends": [] } };
    change("packages", rawdoc! { "_id": 30_i64 }, stranger).await;

    let report = db.check().await.unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            format!("packages 1, `required_by`: lists {kept} of packages more than once"),
            "packages 1, `required_by`: refers to 30 in packages, which does not refer back"
                .to_owned(),
            format!(
                "packages {gone}, `depends`: refers to 1 in packages, which does not refer back"
            ),
        ]
    );
    assert!(matches!(
        report.findings[0].kind,
        FindingKind::DuplicateInverse { to: "packages", .. }
    ));
    let repaired = db.repair().apply().await.unwrap();
    for step in &repaired.steps {
        assert!(matches!(step.outcome, RepairOutcome::Done), "{step}");
    }
    assert_inverses_agree(&db).await;
    let expected = BTreeSet::from_iter(2..=29);
    assert_eq!(BTreeSet::from_iter(required_by(&db, 1).await), expected);
}
