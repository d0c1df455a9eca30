//! Tests that the catalog gives the same results on every backend.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    sync::Arc,
};

use flate2::read::GzDecoder;
use odm::{
    ErrorKind,
    backend::{self, Backend, Executor, Recorder, operation::Operation},
    prelude::*,
};
use odm_examples::catalog::{
    Db,
    load::{self, Input, Source},
    model::{Card, Maintainer, Package, Section},
    queries::{self, Requirements},
};

#[tokio::test]
async fn in_memory() {
    assert_catalog_equals_index(backend::open("memory:").await.unwrap()).await;
    load_a_part_twice(backend::open("memory:").await.unwrap()).await;
}

#[tokio::test]
async fn on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", directory.path().join("catalog.odm").display());
    assert_catalog_equals_index(backend::open(&url).await.unwrap()).await;
}

#[tokio::test]
async fn failures_on_a_replica_set() {
    let fixture = odm_tests::Fixture::mongodb_replica_set().await;
    let cleanup = fixture.cleanup();
    assert_catalog_equals_index(fixture.backend()).await;
    cleanup.await;
}

/// A standalone server links each package separately, so the whole sample would take too long.
#[tokio::test]
async fn failures_on_a_standalone_server() {
    let fixture = odm_tests::Fixture::mongodb_standalone().await;
    let cleanup = fixture.cleanup();
    load_a_part_twice(fixture.backend()).await;
    cleanup.await;
}

/// The numbers come from `python3 examples/data/sample.py count examples/data/debian-12-sample.gz`.
async fn assert_catalog_equals_index(backend: Arc<dyn Backend>) {
    let recorder = Arc::new(Recorder::new(backend));
    let db = Db::with_backend(recorder.clone());
    load::load(&db, Source::Sample.read().unwrap())
        .await
        .unwrap();

    let requirements = Requirements::count(&db).await.unwrap();
    let totals = queries::totals(&db, &requirements).await.unwrap();
    assert_eq!(totals.packages, 7_163);
    assert_eq!(totals.maintainers, 840);
    assert_eq!(totals.sections, 48);
    assert_eq!(totals.dependencies, 34_109);
    assert_eq!(totals.missing, 400);
    assert_eq!(totals.most_required, Some(("libc6".into(), 3_375)));
    assert_eq!(totals.outliers, 12);
    pages_cost_the_same(&db, &recorder).await;
    assert_inverses_agree(&db).await;
    assert_rollups_and_copies_current(&db).await;

    // The index on `depends` finds the same packages as the inverse lists.
    let on_libc = db
        .find::<Package>()
        .filter(|p| p.depends().contains(Ref::<Package>::new("libc6")))
        .count();
    assert_eq!(on_libc.await.unwrap(), 3_375);
    let refused = db.delete::<Package>("libc6").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Restricted);

    // A join needs a query for each edge and level, for any number of documents.
    recorder.clear();
    let packages = db
        .find::<Package>()
        .sort(|p| p.id().asc())
        .with(|p| p.depends().select::<Card>().with(|d| d.maintainer()))
        .with(|p| p.required_by().select::<Card>())
        .limit(100)
        .all();
    assert_eq!(packages.await.unwrap().len(), 100);
    assert_eq!(recorder.queries(), 4);

    recorder.clear();
    let exim = queries::package(&db, "exim4-base", 10).await.unwrap();
    assert_eq!(recorder.queries(), 5);
    assert!(exim.contains("required by 5 packages"), "{exim}");
    assert!(exim.contains("exim4-daemon-heavy"), "{exim}");
    assert!(exim.contains("debconf-2.0"), "{exim}");
    assert!(exim.contains("Debconf Developers"), "{exim}");

    // An index has several versions of some names.
    let versions = db
        .find::<Package>()
        .filter(|p| p.id().starts_with("linux-doc="));
    assert_eq!(versions.count().await.unwrap(), 1);
}

/// A page with the largest outlier reads at most 10 % more bytes than a page without the outlier. A projection without references
/// reads as few bytes as a page without the outlier.
async fn pages_cost_the_same(db: &Db, recorder: &Recorder) {
    let ids = db.find::<Package>().sort(|p| p.id().asc());
    let ids = ids.select::<Card>().all().await.unwrap();
    let libc = ids.iter().position(|card| card.id == "libc6").unwrap();
    let around = &ids[libc - 50..=libc + 50];
    let bytes = async |but: &str, is_of_cards: bool| {
        recorder.clear();
        let page = around.iter().map(|card| &*card.id);
        let page = page.filter(|id| *id != but);
        let page = db.find::<Package>().filter(|p| p.id().is_in(page));
        match is_of_cards {
            true => drop(page.select::<Card>().all().await.unwrap()),
            false => drop(page.all().await.unwrap()),
        }
        let operations = recorder.operations();
        let [Operation::Find(find)] = operations.as_slice() else {
            panic!("{operations:?}");
        };
        let read = recorder.find_all(find.clone()).await.unwrap();
        assert_eq!(read.len(), 100);
        read.iter().map(|raw| raw.as_bytes().len()).sum::<usize>()
    };
    for (is_of_cards, percent) in [(true, 100), (false, 110)] {
        let with = bytes(&around[100].id, is_of_cards).await;
        let without = bytes("libc6", is_of_cards).await;
        println!("{with} bytes with libc6, {without} without");
        assert!(with <= without * percent / 100 + 100, "{with} {without}");
    }
}

/// Loads the first packages of the sample, some packages that depend on each other in a cycle, and enough dependent packages for
/// an overflow.
async fn load_a_part_twice(backend: Arc<dyn Backend>) {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("../data/debian-12-sample.gz")[..])
        .read_to_string(&mut text)
        .unwrap();
    let is_in_circle = |stanza: &str| {
        let names = ["gcc-12-base", "libc6", "libcrypt1", "libgcc-s1"];
        names
            .iter()
            .any(|name| stanza.starts_with(&format!("Package: {name}\n")))
    };
    let stanzas = text.split("\n\n").enumerate();
    let part = stanzas.filter(|(position, stanza)| {
        let is_on_libc = stanza.contains("libc6 (>=");
        *position < 100 || *position < 500 && is_on_libc || is_in_circle(stanza)
    });
    let part: Vec<_> = part.map(|(_, stanza)| stanza).collect();
    let input = || Input::read("a part".into(), part.join("\n\n").as_bytes()).unwrap();

    let db = Db::with_backend(backend);
    load::load(&db, input()).await.unwrap();
    assert_inverses_agree(&db).await;
    let outlier = db.get::<Package>("libc6").await.unwrap().required_by;
    assert!(outlier.has_more() && outlier.len() > 210, "{outlier:?}");
    let depends_on = async |name: &str| db.get::<Package>(name).await.unwrap().depends;
    let circle = ["libc6", "libgcc-s1"].map(Ref::new);
    assert!(depends_on("libc6").await.contains(&circle[1]));
    assert!(depends_on("libgcc-s1").await.contains(&circle[0]));

    load::clear(&db).await.unwrap();
    assert!(load::import(&db).await.unwrap().is_none());
    assert!(!db.find::<Package>().exists().await.unwrap());
    load::load(&db, input()).await.unwrap();
    assert_inverses_agree(&db).await;
    let import = load::import(&db).await.unwrap();
    assert!(import.is_some_and(|import| import.finished.is_some()));
}

/// Asserts that the inverses agree with the references of all packages, and that the check agrees too.
async fn assert_inverses_agree(db: &Db) {
    let packages = db.find::<Package>().all().await.unwrap();
    let mut required: HashMap<Ref<Package>, HashSet<Ref<Package>>> = HashMap::new();
    let mut links = 0;
    for package in &packages {
        for dependency in &package.depends {
            let of_dependency = required.entry(dependency.clone()).or_default();
            assert!(of_dependency.insert(package.to_ref()), "{}", package.id);
            links += 1;
        }
    }
    for package in &packages {
        let depending = required.remove(&package.to_ref()).unwrap_or_default();
        let len = depending.len() as u64;
        assert_eq!(package.required_by.len(), len, "{}", package.id);
        // Only outliers have spilled elements.
        assert_eq!(package.required_by.has_more(), len > 200, "{}", package.id);
        let listed = match package.required_by.has_more() {
            true => db
                .get::<Package>(package.to_ref())
                .elements(|p| p.required_by())
                .all()
                .await
                .unwrap(),
            false => package.required_by.resident().to_vec(),
        };
        assert_eq!(listed.len() as u64, len, "{}", package.id);
        assert_eq!(HashSet::from_iter(listed), depending, "{}", package.id);
    }
    // No dependency is dangling.
    assert!(required.is_empty(), "{required:?}");

    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    // Each dependency has a reference and an inverse entry. Each package has a section and a maintainer.
    let references = 2 * links + 2 * packages.len() as u64;
    assert_eq!(report.references, references);
    assert!(report.to_string().ends_with("no findings"));
}

/// Asserts that rollups of maintainers and sections, and copies in packages, are current.
async fn assert_rollups_and_copies_current(db: &Db) {
    db.wait_for_pending().await.unwrap();
    let packages = db.find::<Package>().all().await.unwrap();
    for maintainer in db.find::<Maintainer>().all().await.unwrap() {
        let matching = packages.iter();
        let matching = matching.filter(|package| *package.maintainer.id() == maintainer.id);
        let names = matching.map(|package| &package.maintained_by);
        let names: Vec<_> = names.collect();
        assert_eq!(maintainer.packages, i64::try_from(names.len()).unwrap());
        assert!(names.iter().all(|name| **name == maintainer.name));
    }
    for section in db.find::<Section>().all().await.unwrap() {
        let matching = packages.iter();
        let matching = matching.filter(|package| *package.section.id() == section.id);
        let mut matching: Vec<_> = matching
            .map(|package| (package.uploaded, &package.id))
            .collect();
        assert_eq!(section.packages, i64::try_from(matching.len()).unwrap());
        matching.sort();
        let latest = matching.iter().rev().take(3).map(|(uploaded, _)| *uploaded);
        let uploads = section.uploads.iter().map(|upload| upload.uploaded);
        assert!(uploads.eq(latest), "{section:?}");
    }
    // A new date for the oldest package: the package becomes the first upload, and the last upload leaves the list.
    let before = db.get::<Section>("mail").await.unwrap();
    let matching = packages.iter();
    let matching = matching.filter(|package| package.section.id() == "mail");
    let oldest = matching.min_by_key(|package| package.uploaded).unwrap();
    let update = db.update::<Package>(&oldest.id);
    update.set(|p| p.uploaded(), DateTime::now()).await.unwrap();
    let after = db.get::<Section>("mail").await.unwrap();
    assert_eq!(after.uploads[0].summary, oldest.summary);
    assert_eq!(after.uploads[1..], before.uploads[..2]);
}
