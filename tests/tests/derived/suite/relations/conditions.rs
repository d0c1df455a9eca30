//! Conditions on the targets of references and on children, sorts by copies, and joins that copies answer.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    ErrorKind, Filter,
    backend::{
        Recorder,
        operation::{Explain, InsertOperation, Operation, RelatedPlan, RelatedStrategy},
    },
    bson::{self, RawDocumentBuf, doc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "categories")]
struct Category {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    slug: String,
    rank: Option<i64>,
    #[reference(exists)]
    parent: Option<Ref<Category>>,
    #[denormalize(from = parent.slug)]
    parent_slug: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "brands")]
struct Brand {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    country: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(insert_struct)]
struct Line {
    count: i64,
    #[reference(exists)]
    brand: Ref<Brand>,
    #[denormalize(from = brand.name)]
    brand_name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products", insert_struct)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    stock: i64,
    #[reference(exists)]
    category: Ref<Category>,
    #[denormalize(from = category.slug)]
    kind: String,
    #[denormalize(from = category.rank)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rank: Option<i64>,
    #[denormalize(from = category.parent_slug)]
    root: Option<String>,
    #[reference(exists)]
    brand: Option<Ref<Brand>>,
    #[denormalize(from = brand.name)]
    brand_name: Option<String>,
    #[embed(max = 10)]
    lines: Vec<Line>,
    #[index]
    #[reference(max = 10)]
    similar: Vec<Ref<Brand>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "reviews")]
struct Review {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    #[reference(max = 10)]
    products: Vec<Ref<Product>>,
    stars: i64,
}

/// References to hosts that can be missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "messages")]
struct Message {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.name)]
    kept_name: String,
    #[reference(on_delete = keep)]
    source: Ref<Host>,
    #[denormalize(from = source.name, on_delete = clear)]
    cleared_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "suppliers", soft_delete)]
struct Supplier {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "offers")]
struct Offer {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    supplier: Ref<Supplier>,
    #[denormalize(from = supplier.name)]
    supplier_name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Tenant(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "accounts", scope = tenant)]
struct Account {
    #[serde(rename = "_id")]
    id: i64,
    tenant: Tenant,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoices", scope = tenant)]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    tenant: Tenant,
    #[reference(exists)]
    account: Ref<Account>,
    #[denormalize(from = account.name)]
    account_name: String,
    #[reference]
    payer: Ref<Account>,
}

/// A model outside of the schema.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "strays")]
struct Stray {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    product: Ref<Product>,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Category)]
struct CategoryCard {
    #[serde(rename = "_id")]
    id: i64,
    slug: String,
    rank: Option<i64>,
}

/// A projection that tells null from a missing field.
#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Category)]
struct ParentSlug {
    #[serde(default = "missing")]
    parent_slug: Option<String>,
}

fn missing() -> Option<String> {
    Some("missing".into())
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Brand)]
struct BrandName {
    name: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Brand)]
struct BrandCard {
    name: String,
    country: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Product)]
struct Stock {
    stock: i64,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Host)]
struct HostName {
    name: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Supplier)]
struct SupplierName {
    name: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Account)]
struct AccountName {
    name: String,
}

#[derive(Schema)]
#[schema(models(
    Category, Brand, Product, Review, Host, Message, Supplier, Offer, Account, Invoice
))]
struct Shop;
type Db = odm::Database<Shop>;

fn category(id: i64, slug: &str, rank: Option<i64>, parent: Option<i64>) -> NewCategory {
    NewCategory {
        id,
        slug: slug.to_owned(),
        rank,
        parent: parent.map(Ref::new),
    }
}

fn product(id: i64, category: i64, brand: Option<i64>, brands: &[i64]) -> NewProduct {
    NewProduct {
        id,
        stock: id,
        category: Ref::new(category),
        brand: brand.map(Ref::new),
        lines: brands
            .iter()
            .map(|brand| NewLine {
                count: *brand,
                brand: Ref::new(*brand),
            })
            .collect(),
        similar: brands.iter().copied().map(Ref::new).collect(),
    }
}

/// Opens a database whose operations are recorded, with products 1 to 6.
async fn open_shop(fixture: &Fixture) -> (Db, Recorder) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    db.insert(category(1, "tools", None, None)).await.unwrap();
    db.insert_many([
        category(2, "saws", Some(1), Some(1)),
        category(3, "drills", Some(2), Some(1)),
        category(4, "books", None, None),
    ])
    .await
    .unwrap();
    let brand = |id, name: &str, country: Option<&str>| Brand {
        id,
        name: name.to_owned(),
        country: country.map(str::to_owned),
    };
    db.insert_many([
        brand(1, "acme", Some("ch")),
        brand(2, "bosco", None),
        brand(3, "cut", Some("de")),
    ])
    .await
    .unwrap();
    db.insert_many([
        product(1, 2, Some(1), &[1, 2]),
        product(2, 2, None, &[]),
        product(3, 3, Some(2), &[2]),
        product(4, 3, Some(3), &[1, 3, 3]),
        product(5, 4, Some(3), &[3]),
        product(6, 1, None, &[2, 1]),
    ])
    .await
    .unwrap();
    let review = |id, stars, products: &[i64]| Review {
        id,
        stars,
        products: products.iter().copied().map(Ref::new).collect(),
    };
    db.insert_many([
        review(1, 5, &[1, 3]),
        review(2, 1, &[3]),
        review(3, 4, &[4, 4]),
        review(4, 2, &[]),
        review(5, 2, &[6]),
    ])
    .await
    .unwrap();
    db.wait_for_pending().await.unwrap();
    recorder.clear();
    (db, recorder)
}

/// Returns the ids of the products that meet a condition. Every way to read must agree.
async fn ids_of(db: &Db, filter: impl Fn() -> Filter<Product>) -> Vec<i64> {
    let find = || db.find::<Product>().filter(|_| filter());
    let all = find().sort(|p| p.id().asc()).all().await.unwrap();
    let ids: Vec<_> = all.iter().map(|product| product.id).collect();
    let set: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(find().count().await.unwrap(), ids.len() as u64);
    assert_eq!(find().exists().await.unwrap(), !ids.is_empty());
    let current = find().current().sort(|p| p.id().asc()).all().await.unwrap();
    assert_eq!(current, all);
    let explain = find().explain().await.unwrap();
    let is_lookup = |plan: &RelatedPlan| matches!(plan.strategy, RelatedStrategy::Lookup { .. });
    match explain.related.iter().any(is_lookup) {
        // The plan describes the part before the lookup.
        true => assert!(explain.returned >= ids.len() as u64),
        false => assert_eq!(explain.returned, ids.len() as u64),
    }
    assert_eq!(
        find().sum(|p| p.stock()).await.unwrap(),
        ids.iter().sum::<i64>()
    );
    let distinct = find().distinct(|p| p.id()).await.unwrap();
    assert_eq!(distinct.into_iter().collect::<BTreeSet<_>>(), set);
    let groups = find().group_by(|p| p.id()).select(|g| g.count());
    assert_eq!(groups.all().await.unwrap().len(), ids.len());
    assert_eq!(find().sample(10).await.unwrap().len(), ids.len());
    let mut rows = find().stream();
    let mut streamed = BTreeSet::new();
    while let Some(row) = rows.next().await {
        streamed.insert(row.unwrap().id);
    }
    assert_eq!(streamed, set);
    let mut paged = Vec::new();
    let mut token = None;
    loop {
        let page = find().page(2).with_total().after(token).await.unwrap();
        assert_eq!(page.total, Some(ids.len() as u64));
        paged.extend(page.items.iter().map(|product| product.id));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(paged, ids);
    ids
}

fn products() -> odm::Fields<Product> {
    Product::fields()
}

pub async fn conditions_on_targets(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let category =
        |slug: &'static str| move || products().category().matches(|c| c.slug().eq(slug));
    assert_eq!(ids_of(&db, category("saws")).await, [1, 2]);
    assert_eq!(ids_of(&db, category("none")).await, [0; 0]);
    assert_eq!(ids_of(&db, || !category("saws")()).await, [3, 4, 5, 6]);
    assert_eq!(
        ids_of(&db, || category("saws")() & products().stock().gt(1)).await,
        [2]
    );
    assert_eq!(
        ids_of(&db, || category("saws")() | products().stock().gt(5)).await,
        [1, 2, 6]
    );
    let without_rank = || products().category().matches(|c| c.rank().is_none());
    assert_eq!(ids_of(&db, without_rank).await, [5, 6]);
    let by_id = || products().category().matches(|c| c.id().gte(3));
    assert_eq!(ids_of(&db, by_id).await, [3, 4, 5]);
    // A condition without a copy, and a part with a copy.
    let either = || {
        let fields = |c: odm::Fields<Category>| c.slug().eq("books") | c.parent().is_some();
        products().category().matches(fields)
    };
    assert_eq!(ids_of(&db, either).await, [1, 2, 3, 4, 5]);

    // The target of the target, by a copy of a copy and by ids.
    let below = |slug: &'static str| {
        move || {
            let parent = |c: odm::Fields<Category>| c.parent().matches(|c| c.slug().eq(slug));
            products().category().matches(parent)
        }
    };
    assert_eq!(ids_of(&db, below("tools")).await, [1, 2, 3, 4]);
    let roots = || {
        let parent = |c: odm::Fields<Category>| c.parent().matches(|c| c.rank().is_none());
        products().category().matches(parent)
    };
    assert_eq!(ids_of(&db, roots).await, [1, 2, 3, 4]);

    // An optional reference: products without a brand have no target.
    let brand = || products().brand().matches(|b| b.name().ne("acme"));
    assert_eq!(ids_of(&db, brand).await, [3, 4, 5]);
    let any_brand = || products().brand().matches(|_| Filter::all());
    assert_eq!(ids_of(&db, any_brand).await, [1, 3, 4, 5]);
    let foreign = || {
        products()
            .brand()
            .matches(|b| b.country().ne(Some("ch".to_owned())))
    };
    assert_eq!(ids_of(&db, foreign).await, [3, 4, 5]);
    let no_condition = || products().brand().matches(|_| None::<Filter<Brand>>);
    assert_eq!(ids_of(&db, no_condition).await, [1, 3, 4, 5]);
}

pub async fn conditions_on_lists_of_targets(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let similar = || products().similar().targets();
    assert_eq!(
        ids_of(&db, || similar().any(|b| b.name().eq("acme"))).await,
        [1, 4, 6]
    );
    assert_eq!(
        ids_of(&db, || similar().none(|b| b.name().eq("acme"))).await,
        [2, 3, 5]
    );
    assert_eq!(
        ids_of(&db, || similar().all(|b| b.name().lt("c"))).await,
        [1, 2, 3, 6]
    );
    assert_eq!(
        ids_of(&db, || similar().any(|_| Filter::all())).await,
        [1, 3, 4, 5, 6]
    );
    // The closure of an element.
    let element = || {
        products()
            .similar()
            .any(|brand| brand.matches(|b| b.country().is_none()))
    };
    assert_eq!(ids_of(&db, element).await, [1, 3, 6]);

    // References in an array of structs.
    let lines = || products().lines().brand().targets();
    assert_eq!(
        ids_of(&db, || lines().any(|b| b.name().eq("cut"))).await,
        [4, 5]
    );
    assert_eq!(
        ids_of(&db, || lines().all(|b| b.name().eq("cut"))).await,
        [2, 5]
    );
    // One line meets both conditions, by a copy and by ids.
    let line = || {
        products()
            .lines()
            .any(|l| l.brand().matches(|b| b.name().eq("acme")) & l.count().eq(1))
    };
    assert_eq!(ids_of(&db, line).await, [1, 4, 6]);
    let line = || {
        products()
            .lines()
            .any(|l| l.brand().matches(|b| b.country().is_some()) & l.count().gt(1))
    };
    assert_eq!(ids_of(&db, line).await, [4, 5]);

    // A missing target meets no condition, and fails none.
    db.delete::<Review>(1).await.unwrap();
    db.insert(Review {
        id: 9,
        stars: 1,
        products: vec![Ref::new(1), Ref::new(99)],
    })
    .await
    .unwrap();
    let reviews = |filter: Filter<Review>| db.find::<Review>().filter(move |_| filter).count();
    let fields = || Review::fields().products().targets();
    assert_eq!(reviews(fields().any(|p| p.id().eq(99))).await.unwrap(), 0);
    assert_eq!(reviews(fields().all(|p| p.id().lte(3))).await.unwrap(), 3);
}

pub async fn conditions_on_children(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let reviews = || Review::by(|r| r.products());
    assert_eq!(
        ids_of(&db, || reviews().any(|r| r.stars().gte(4))).await,
        [1, 3, 4]
    );
    assert_eq!(
        ids_of(&db, || reviews().none(|r| r.stars().gte(4))).await,
        [2, 5, 6]
    );
    assert_eq!(
        ids_of(&db, || reviews().all(|r| r.stars().gte(4))).await,
        [1, 2, 4, 5]
    );
    assert_eq!(ids_of(&db, || reviews().none(|_| None)).await, [2, 5]);
    let filtered = || {
        reviews()
            .filter(|r| r.stars().gt(1))
            .all(|r| r.stars().gte(4))
    };
    assert_eq!(ids_of(&db, filtered).await, [1, 2, 3, 4, 5]);
    // The reviewed products of a category, and the categories with a reviewed product.
    let nested = || {
        reviews().any(|r| {
            r.products()
                .targets()
                .any(|p| p.category().matches(|c| c.slug().eq("saws")))
        })
    };
    assert_eq!(ids_of(&db, nested).await, [1, 3]);
    let categories = db
        .find::<Category>()
        .filter(|_| Product::by(|p| p.category()).any(|_| reviews().any(|r| r.stars().eq(4))))
        .all()
        .await
        .unwrap();
    assert_eq!(categories.iter().map(|c| c.id).collect::<Vec<_>>(), [3]);
    let lines = || Product::by(|p| p.lines().brand()).any(|p| p.stock().gte(5));
    let brands = db
        .find::<Brand>()
        .filter(|_| lines())
        .sort(|b| b.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(brands.iter().map(|b| b.id).collect::<Vec<_>>(), [1, 2, 3]);

    for ordered in [reviews().limit(1), reviews().sort(|r| r.stars().asc())] {
        let error = db
            .find::<Product>()
            .filter(|_| ordered.any(|_| None))
            .count()
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let indexed = || Product::by(|p| p.lines().at(0).brand()).any(|_| None);
    let error = db
        .find::<Brand>()
        .filter(|_| indexed())
        .count()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let stray = || Stray::by(|s| s.product()).any(|_| None);
    let error = db.find::<Product>().filter(|_| stray()).count().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("`Stray`"), "{error}");
}

/// Returns the strategies of a plan, as a text.
fn strategies(explain: &Explain) -> Vec<String> {
    let related = explain.related.iter();
    related
        .map(|related| match &related.strategy {
            RelatedStrategy::Copy { fields } => format!("copy {}", fields.join(" ")),
            RelatedStrategy::Ids { count, plan } => {
                let access = if plan.is_collection_scan {
                    "scan"
                } else {
                    "index"
                };
                format!("{count} ids of {}, {access}", related.collection)
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

pub async fn strategies_and_round_trips_of_conditions(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let cases: [(Filter<Product>, &[&str]); 9] = [
        (
            products().category().matches(|c| c.slug().eq("saws")),
            &["copy kind"],
        ),
        (
            products()
                .category()
                .matches(|c| c.slug().eq("saws") & c.rank().gt(0)),
            &["copy kind rank"],
        ),
        (
            products()
                .category()
                .matches(|c| c.parent().matches(|c| c.slug().eq("tools"))),
            &["copy parent_slug", "copy root"],
        ),
        (
            products()
                .lines()
                .any(|l| l.brand().matches(|b| b.name().eq("cut"))),
            &["copy lines.brand_name"],
        ),
        // The brand has no copy of the country.
        (
            products()
                .brand()
                .matches(|b| b.country().eq(Some("ch".to_owned()))),
            &["1 ids of brands, scan"],
        ),
        (
            products()
                .category()
                .matches(|c| c.slug().eq("saws") & c.parent().is_some()),
            &["1 ids of categories, index"],
        ),
        (
            products().category().matches(|c| {
                c.parent()
                    .matches(|c| c.slug().eq("tools") & c.rank().is_none() & c.parent().is_none())
            }),
            &["1 ids of categories, index", "2 ids of categories, index"],
        ),
        (
            products().similar().targets().any(|b| b.name().eq("cut")),
            &["1 ids of brands, scan"],
        ),
        (
            Review::by(|r| r.products()).any(|r| r.stars().eq(5)),
            &["2 ids of reviews, scan"],
        ),
    ];
    for (filter, expected) in cases {
        let find = || db.find::<Product>().filter(|_| filter.clone());
        let explain = find().explain().await.unwrap();
        assert_eq!(strategies(&explain), expected, "{filter:?}");
        let scans = expected
            .iter()
            .filter(|plan| plan.ends_with("scan"))
            .count();
        assert_eq!(explain.warnings().len(), scans);
        let page_explain = find().page(3).explain().await.unwrap();
        assert_eq!(page_explain.related, explain.related);
        let queries = 1 + expected
            .iter()
            .filter(|plan| !plan.starts_with("copy"))
            .count();
        recorder.clear();
        find().all().await.unwrap();
        assert_eq!(recorder.operations().len(), queries, "{filter:?}");
        recorder.clear();
        find().count().await.unwrap();
        assert_eq!(recorder.operations().len(), queries, "{filter:?}");
    }
    let explain = db.find::<Product>().explain().await.unwrap();
    assert_eq!(explain.related, []);

    // A query for current values reads the target instead of the copy.
    let current = || {
        db.find::<Product>()
            .filter(|p| p.category().matches(|c| c.slug().eq("saws")))
            .current()
    };
    let explain = current().explain().await.unwrap();
    assert_eq!(strategies(&explain), ["1 ids of categories, index"]);
}

pub async fn pages_continue_while_targets_change(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let in_switzerland = || {
        let similar =
            |p: odm::Fields<Product>| p.similar().targets().any(|b| b.country().is_some());
        db.find::<Product>().filter(similar).page(2)
    };
    let first = in_switzerland().await.unwrap();
    assert_eq!(first.items.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 4]);
    // The condition has other ids now. The token stays valid.
    db.update::<Brand>(2)
        .set(|b| b.country(), Some("at".to_owned()))
        .await
        .unwrap();
    let second = in_switzerland().after(first.next.clone()).await.unwrap();
    assert_eq!(
        second.items.iter().map(|p| p.id).collect::<Vec<_>>(),
        [5, 6]
    );
    // A token of another condition is not.
    let other = db
        .find::<Product>()
        .filter(|p| p.similar().targets().any(|b| b.country().is_none()));
    let error = other.page(2).after(first.next).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPageToken, "{error}");
}

/// A copy can have the value of a target that is gone, and then does not answer.
pub async fn missing_targets_meet_no_condition(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let host = |id| Host {
        id,
        name: format!("h{id}"),
    };
    db.insert_many([host(1), host(2)]).await.unwrap();
    let message = |id| NewMessage {
        id,
        host: Ref::new(id),
        source: Ref::new(id),
    };
    db.insert_many([message(1), message(2)]).await.unwrap();
    db.delete::<Host>(1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    let messages = async |filter: Filter<Message>| {
        let find = db.find::<Message>().filter(|_| filter);
        let explain = find.clone().explain().await.unwrap();
        let ids = find.sort(|m| m.id().asc()).all().await.unwrap();
        (
            strategies(&explain),
            ids.iter().map(|m| m.id).collect::<Vec<_>>(),
        )
    };
    let fields = Message::fields;
    let ids = |n| vec![format!("{n} ids of hosts, scan")];
    let copy = || vec!["copy cleared_name".to_owned()];
    let names = ["h1", "h2"];

    // The kept copy of the deleted host still has the name.
    assert_eq!(db.get::<Message>(1).await.unwrap().kept_name, "h1");
    assert_eq!(
        messages(fields().host().matches(|h| h.name().eq("h1"))).await,
        (ids(0), vec![])
    );
    assert_eq!(
        messages(fields().host().matches(|h| h.name().is_in(names))).await,
        (ids(1), vec![2])
    );
    // The cleared copy is null, so it answers every condition that null does not meet.
    assert_eq!(
        messages(fields().source().matches(|h| h.name().is_in(names))).await,
        (copy(), vec![2])
    );
    assert_eq!(
        messages(fields().source().matches(|h| h.name().ne("h3"))).await,
        (ids(1), vec![2])
    );
    let by_id = fields()
        .source()
        .matches(|h| h.id().lt(9) & h.name().gt(""));
    let by_index = vec!["1 ids of hosts, index".to_owned()];
    assert_eq!(messages(by_id).await, (by_index, vec![2]));
    // The copy itself, by the name of its source.
    let copies = db
        .find::<Message>()
        .filter(|m| m.host().get(|h| h.name()).eq("h1"));
    assert_eq!(copies.count().await.unwrap(), 1);

    // A join reports the deleted host, with and without copies.
    let found = db
        .find::<Message>()
        .sort(|m| m.id().asc())
        .with(|m| m.host().select::<HostName>())
        .with(|m| m.source().select::<HostName>())
        .all()
        .await
        .unwrap();
    let loaded: Vec<_> = found
        .iter()
        .map(|(_, a, b)| (a.loaded().is_some(), b.loaded().is_some()))
        .collect();
    assert_eq!(loaded, [(false, false), (true, true)]);
}

pub async fn hidden_targets_meet_no_condition(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let supplier = |id: i64| NewSupplier {
        id,
        name: format!("s{id}"),
    };
    db.insert_many([supplier(1), supplier(2)]).await.unwrap();
    let offer = |id| NewOffer {
        id,
        supplier: Ref::new(id),
    };
    db.insert_many([offer(1), offer(2)]).await.unwrap();
    db.update_many::<Supplier>(|s| s.id().eq(1))
        .set(|s| s.name(), "old")
        .await
        .unwrap();
    db.delete::<Supplier>(1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    // The delete is soft: the offer and its copy stay.
    let all = |filter: Filter<Offer>| db.find::<Offer>().filter(move |_| filter).count();
    assert_eq!(
        all(Offer::fields().supplier_name().eq("old"))
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        all(Offer::fields().supplier().matches(|s| s.name().eq("old")))
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        all(Offer::fields().supplier().matches(|_| Filter::all()))
            .await
            .unwrap(),
        1
    );
    let deleted = |s: odm::Fields<Supplier>| s.name().eq("old") & s.deleted_at().is_some();
    assert_eq!(
        all(Offer::fields().supplier().matches(deleted))
            .await
            .unwrap(),
        0
    );
    let parents = |filter: Filter<Supplier>| {
        db.find::<Supplier>()
            .with_deleted()
            .filter(move |_| filter)
            .count()
    };
    assert_eq!(
        parents(Offer::by(|o| o.supplier()).any(|_| None))
            .await
            .unwrap(),
        2
    );
    let joined = db
        .find::<Offer>()
        .with(|o| o.supplier().select::<SupplierName>())
        .all()
        .await
        .unwrap();
    assert_eq!(
        joined
            .iter()
            .filter(|(_, supplier)| supplier.loaded().is_some())
            .count(),
        1
    );

    // Scopes: tenant b has an account 2, to which an invoice of tenant a refers.
    let (a, b) = (db.scope(&Tenant("a".into())), db.scope(&Tenant("b".into())));
    a.insert(NewAccount {
        id: 1,
        name: "one".into(),
    })
    .await
    .unwrap();
    b.insert(NewAccount {
        id: 2,
        name: "two".into(),
    })
    .await
    .unwrap();
    let invoice = |id, account, payer| NewInvoice {
        id,
        account: Ref::new(account),
        payer: Ref::new(payer),
    };
    a.insert(invoice(1, 1, 2)).await.unwrap();
    b.insert(invoice(2, 2, 2)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    for (session, expected) in [(&a, [0, 1]), (&b, [1, 1])] {
        let payer = session
            .find::<Invoice>()
            .filter(|i| i.payer().matches(|a| a.name().eq("two")));
        assert_eq!(payer.count().await.unwrap(), expected[0]);
        let find = || {
            session
                .find::<Invoice>()
                .filter(|i| i.account().matches(|a| a.name().is_in(["one", "two"])))
        };
        assert_eq!(
            strategies(&find().explain().await.unwrap()),
            ["copy account_name"]
        );
        assert_eq!(find().count().await.unwrap(), expected[1]);
        recorder.clear();
        let joined = session
            .find::<Invoice>()
            .with(|i| i.account().select::<AccountName>())
            .one()
            .await
            .unwrap();
        assert!(joined.1.loaded().is_some());
        assert_eq!(recorder.operations().len(), 1);
    }
    let accounts = a
        .find::<Account>()
        .filter(|_| Invoice::by(|i| i.payer()).any(|_| None));
    assert_eq!(accounts.count().await.unwrap(), 0);
    let accounts = db
        .all_scopes()
        .find::<Account>()
        .filter(|_| Invoice::by(|i| i.payer()).any(|_| None))
        .count();
    assert_eq!(accounts.await.unwrap(), 1);
    // A session without a scope reads no accounts.
    let outside = db
        .find::<Brand>()
        .filter(|_| Filter::all() & Product::by(|p| p.brand()).any(|_| None));
    assert_eq!(outside.count().await.unwrap(), 3);
}

pub async fn writes_with_conditions_on_related_documents(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let saws = |p: odm::Fields<Product>| p.category().matches(|c| c.slug().eq("saws"));
    let swiss = |p: odm::Fields<Product>| p.brand().matches(|b| b.country().is_some());
    let reads = |recorder: &Recorder| {
        let reads = recorder.queries();
        recorder.clear();
        reads
    };
    let updated = db
        .update_many::<Product>(saws)
        .inc(|p| p.stock(), 10)
        .await
        .unwrap();
    assert_eq!((updated.matched, reads(&recorder)), (2, 0));
    let updated = db
        .update_many::<Product>(swiss)
        .inc(|p| p.stock(), 100)
        .await
        .unwrap();
    assert_eq!((updated.matched, reads(&recorder)), (3, 1));
    let first = db
        .update_first::<Product>(swiss)
        .sort(|p| p.id().desc())
        .inc(|p| p.stock(), 1_000);
    assert_eq!(
        first.returning_after().await.unwrap().applied().unwrap().id,
        5
    );
    let when = db
        .update::<Product>(2)
        .inc(|p| p.stock(), 1)
        .when(swiss)
        .await
        .unwrap();
    assert!(!when.is_applied());
    let unreviewed = |_| Review::by(|r| r.products()).none(|_| None);
    let updated = db
        .update_many::<Product>(unreviewed)
        .inc(|p| p.stock(), 10_000)
        .await
        .unwrap();
    assert_eq!(updated.matched, 2);
    let all = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .select::<Stock>()
        .all()
        .await
        .unwrap();
    let stocks: Vec<_> = all.iter().map(|p| p.stock).collect();
    assert_eq!(stocks, [111, 10_012, 3, 104, 11_105, 6]);

    // In a transaction, the query for the ids sees the writes of the transaction.
    if fixture.backend().capabilities().transactions {
        let matched = db
            .transaction(async |tx| {
                tx.update::<Brand>(2)
                    .set(|b| b.country(), Some("at".to_owned()))
                    .await?;
                let found = tx.find::<Product>().filter(swiss).count().await?;
                let updated = tx
                    .update_many::<Product>(swiss)
                    .inc(|p| p.stock(), 0)
                    .await?;
                Ok::<_, odm::Error>((found, updated.matched))
            })
            .await
            .unwrap();
        assert_eq!(matched, (4, 4));
        let plan = db
            .update_many::<Product>(swiss)
            .inc(|p| p.stock(), 1)
            .explain()
            .await
            .unwrap();
        let plan = plan.to_string();
        assert!(
            plan.contains("joins: read the ids of a condition"),
            "{plan}"
        );
    }

    // Deletes.
    let delete =
        || db.delete_many::<Product>(|p| p.similar().targets().all(|b| b.name().eq("cut")));
    assert_eq!(delete().dry_run().await.unwrap().deleted["products"], 2);
    assert_eq!(delete().await.unwrap().deleted, 2);
    let first = db.delete_first::<Product>(saws).await.unwrap();
    assert_eq!(first.applied().map(|product| *product.id()), Some(1));
    let when = db.delete::<Product>(6).when(saws).await.unwrap();
    assert_eq!(when.deleted, 0);
    let left = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(left.iter().map(|p| p.id).collect::<Vec<_>>(), [3, 4, 6]);

    // Writes and reads that do not resolve conditions refuse them.
    let update = db.update_many::<Product>(swiss).inc(|p| p.stock(), 1);
    let bulk = db.bulk().add(update);
    let mut errors = vec![bulk.await.unwrap().into_result().unwrap_err()];
    let upsert = db.update::<Product>(3).inc(|p| p.stock(), 1).when(swiss);
    errors.push(
        upsert
            .or_insert(product(3, 2, None, &[]))
            .await
            .unwrap_err(),
    );
    let rows = db.find::<Product>().filter(swiss).pipeline([]);
    errors.push(rows.all_as::<bson::Document>().await.unwrap_err());
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("read the ids by a query first"),
            "{error}"
        );
    }
}

pub async fn joins_with_conditions_on_related_documents(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let (_, children) = db
        .get::<Category>(2)
        .with_children(
            Product::by(|p| p.category()).filter(|p| p.brand().matches(|b| b.country().is_some())),
        )
        .await
        .unwrap();
    assert_eq!(children.iter().map(|p| p.id).collect::<Vec<_>>(), [1]);
    let (_, products) = db
        .get::<Review>(1)
        .with(|r| {
            r.products()
                .filter(|p| p.brand().matches(|b| b.country().is_some()))
        })
        .await
        .unwrap();
    assert_eq!(products.loaded().map(|p| p.id).collect::<Vec<_>>(), [1]);
}

/// The number of related documents that do not fit into a condition.
const TOO_MANY: i64 = 10_001;

/// Inserts many documents as another program, which is faster.
async fn insert_raw(
    fixture: &Fixture,
    collection: &'static str,
    documents: impl Iterator<Item = bson::Document>,
) {
    let documents = documents.map(|document| RawDocumentBuf::try_from(&document).unwrap());
    let documents: Vec<_> = documents.collect();
    for batch in documents.chunks(5_000) {
        let insert = InsertOperation {
            collection: collection.into(),
            documents: batch.to_vec(),
            ordered: true,
            origin: Default::default(),
        };
        fixture.backend().insert(insert).await.unwrap();
    }
}

pub async fn more_ids_than_the_limit_need_a_lookup(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let brand = |id: i64| doc! { "_id": id, "name": "many", "country": "zz" };
    let last = 99 + TOO_MANY;
    insert_raw(&fixture, "brands", (100..last).map(brand)).await;
    let many = || products().similar().targets().any(|b| b.name().eq("many"));
    let similar = product(7, 1, Some(100), &[1, 5_000]);
    let same_brand = product(8, 4, Some(300), &[]);
    db.insert_many([similar, same_brand]).await.unwrap();
    recorder.clear();
    assert_eq!(ids_of(&db, many).await, [7]);
    assert!(
        recorder
            .operations()
            .iter()
            .all(|operation| !is_lookup(operation))
    );

    // One more, and each way to read uses a lookup.
    insert_raw(&fixture, "brands", std::iter::once(brand(last))).await;
    recorder.clear();
    assert_eq!(ids_of(&db, many).await, [7]);
    assert!(recorder.operations().iter().any(is_lookup));
    let of_brand = || products().brand().matches(|b| b.country().eq("zz"));
    assert_eq!(ids_of(&db, of_brand).await, [7, 8]);
    assert_eq!(ids_of(&db, || many() & products().stock().gt(6)).await, [7]);
    assert_eq!(
        ids_of(&db, || many() & products().stock().gt(7)).await,
        [0; 0]
    );
    assert_eq!(
        ids_of(&db, || many() | products().stock().eq(2)).await,
        [2, 7]
    );
    assert_eq!(ids_of(&db, || many() & of_brand()).await, [7]);
    assert_eq!(
        ids_of(&db, || !many() & products().stock().gte(6)).await,
        [6, 8]
    );
    let none = || products().similar().targets().none(|b| b.name().eq("many"));
    assert_eq!(
        ids_of(&db, || none() & products().stock().gte(6)).await,
        [6, 8]
    );

    let find = || db.find::<Product>().filter(|_| of_brand());
    let ids = |products: Vec<Product>| products.iter().map(|p| p.id).collect::<Vec<_>>();
    let last_first = find().sort(|p| p.id().desc()).limit(1);
    assert_eq!(ids(last_first.all().await.unwrap()), [8]);
    assert_eq!(find().limit(0).count().await.unwrap(), 0);
    assert_eq!(find().limit(1).count().await.unwrap(), 1);
    assert_eq!(find().sample(5).await.unwrap().len(), 2);
    let first = find()
        .sort(|p| p.id().asc())
        .page(1)
        .with_total()
        .await
        .unwrap();
    assert_eq!((first.items[0].id, first.total), (7, Some(2)));
    let second = find()
        .sort(|p| p.id().asc())
        .page(1)
        .after(first.next)
        .await
        .unwrap();
    assert_eq!(ids(second.items), [8]);
    let mut stream = find().sort(|p| p.id().asc()).stream();
    assert_eq!(stream.next().await.unwrap().unwrap().id, 7);
    let similar = find().distinct(|p| p.similar()).await.unwrap();
    let similar: BTreeSet<_> = similar.iter().map(|brand| *brand.id()).collect();
    assert_eq!(similar, BTreeSet::from([1, 5_000]));
    let stock = find().select::<Stock>().sort(|p| p.stock().desc());
    assert_eq!(stock.first().await.unwrap(), Some(Stock { stock: 8 }));
    let joined = find().sort(|p| p.id().asc()).with(|p| p.category());
    let (_, category) = joined.all().await.unwrap().remove(0);
    assert_eq!(category.loaded().map(|c| c.id), Some(1));
    let explain = find().explain().await.unwrap();
    let [related] = &explain.related[..] else {
        panic!("{explain:?}");
    };
    assert!(
        matches!(&related.strategy, RelatedStrategy::Lookup { plan } if !plan.is_collection_scan),
        "{related}"
    );

    // Without a lookup: elements, writes, and the condition of a join.
    let refused = async |error: Option<odm::Error>| {
        let error = error.expect("an error");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("more than 10000 ids") && text.contains("brands"),
            "{text}"
        );
    };
    let in_element = db.find::<Product>().filter(|p| {
        p.lines()
            .any(|line| line.brand().matches(|b| b.country().eq("zz")) & line.count().gt(0))
    });
    refused(in_element.count().await.err()).await;
    let update = db.update_many::<Product>(|_| many()).inc(|p| p.stock(), 1);
    refused(update.await.err()).await;
    refused(db.delete_many::<Product>(|_| many()).await.err()).await;
}

/// Whether an operation searches related documents.
fn is_lookup(operation: &Operation) -> bool {
    let Operation::Aggregate(aggregate) = operation else {
        return false;
    };
    let stages = &aggregate.pipeline;
    stages
        .iter()
        .any(|stage| stage.get_document("$lookup").is_ok())
}

pub async fn more_parents_than_the_limit_need_a_lookup(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let review = |number: i64| Review {
        id: 100 + number,
        stars: 7,
        products: (number * 10..number * 10 + 10)
            .map(|id| Ref::new(1_000 + id))
            .collect(),
    };
    db.insert_many((0..TOO_MANY / 10 + 1).map(review))
        .await
        .unwrap();
    let five = |id, stars| Review {
        id,
        stars,
        products: vec![Ref::new(5), Ref::new(7)],
    };
    db.insert_many([five(50, 7), five(51, 8)]).await.unwrap();
    let reviewed = || Review::by(|r| r.products()).any(|r| r.stars().eq(7));
    assert_eq!(ids_of(&db, reviewed).await, [5]);
    assert_eq!(
        ids_of(&db, || !reviewed() & products().stock().gt(3)).await,
        [4, 6]
    );
    let explain = db
        .find::<Product>()
        .filter(|_| reviewed())
        .explain()
        .await
        .unwrap();
    let strategy = &explain.related[0].strategy;
    assert!(
        matches!(strategy, RelatedStrategy::Lookup { plan } if plan.indexes == ["products_1"]),
        "{strategy:?}"
    );
}

pub async fn a_lookup_contains_a_lookup(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let root = |number: i64| doc! { "_id": 100 + number, "slug": "root", "rank": 9_i64 };
    insert_raw(&fixture, "categories", (0..TOO_MANY).map(root)).await;
    let below = |number: i64| doc! { "_id": 20_000 + number, "slug": "below", "parent_slug": "root", "parent": 100 + number % 3 };
    insert_raw(&fixture, "categories", std::iter::once(below(0))).await;
    db.insert(product(9, 20_000, None, &[])).await.unwrap();
    let below_nine = || {
        products()
            .category()
            .matches(|c| c.parent().matches(|parent| parent.rank().eq(9)))
    };
    assert_eq!(ids_of(&db, below_nine).await, [9]);
    insert_raw(&fixture, "categories", (1..TOO_MANY).map(below)).await;
    db.insert(product(10, 20_000 + TOO_MANY - 1, None, &[]))
        .await
        .unwrap();
    assert_eq!(ids_of(&db, below_nine).await, [9, 10]);
    let rest = ids_of(&db, || !below_nine() & products().stock().gt(4)).await;
    assert_eq!(rest, [5, 6]);
}

pub async fn a_lookup_keeps_to_the_scope(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let (a, b) = (db.scope(&Tenant("a".into())), db.scope(&Tenant("b".into())));
    let account = |id| NewAccount {
        id,
        name: "two".into(),
    };
    b.insert(account(1)).await.unwrap();
    a.insert_many([account(10), account(11)]).await.unwrap();
    let account = |id: i64| doc! { "_id": id, "tenant": "a", "name": "two" };
    insert_raw(&fixture, "accounts", (12..10 + TOO_MANY).map(account)).await;
    let invoice = |id, payer| NewInvoice {
        id,
        account: Ref::new(10),
        payer: Ref::new(payer),
    };
    a.insert_many([invoice(1, 1), invoice(2, 11)])
        .await
        .unwrap();
    let paid = a
        .find::<Invoice>()
        .filter(|i| i.payer().matches(|a| a.name().eq("two")));
    let paid: Vec<_> = paid
        .all()
        .await
        .unwrap()
        .iter()
        .map(|invoice| invoice.id)
        .collect();
    assert_eq!(paid, [2]);
}

pub async fn many_children_of_few_parents_fit(fixture: Fixture) {
    let (db, _) = open_shop(&fixture).await;
    let count = |filter: Filter<Product>| db.find::<Product>().filter(move |_| filter).count();
    let review = |id| Review {
        id,
        stars: 9,
        products: vec![Ref::new(1)],
    };
    db.insert_many((100..10_101).map(review)).await.unwrap();
    let reviewed = || Review::by(|r| r.products()).any(|r| r.stars().eq(9));
    assert_eq!(count(reviewed()).await.unwrap(), 1);
    // Each array is different, and the last review alone refers to the sixth product.
    let review = |id: i64| Review {
        id,
        stars: 9,
        products: match id {
            30_000 => vec![Ref::new(6)],
            _ => (0..10)
                .map(|digit| Ref::new(1 + id / 3_i64.pow(digit) % 3))
                .collect(),
        },
    };
    db.insert_many((20_000..30_001).map(review)).await.unwrap();
    assert_eq!(count(reviewed()).await.unwrap(), 4);
}

pub async fn sorts_by_copies_of_targets(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let ids = |products: Vec<Product>| products.iter().map(|p| p.id).collect::<Vec<_>>();
    let sorted = db
        .find::<Product>()
        .sort(|p| (p.category().get(|c| c.slug()).desc(), p.id().asc()));
    assert_eq!(ids(sorted.all().await.unwrap()), [6, 1, 2, 3, 4, 5]);
    assert_eq!(recorder.operations().len(), 1);
    // Without a brand, the copy is null.
    let sorted = || {
        db.find::<Product>()
            .sort(|p| (p.brand().get(|b| b.name()).asc(), p.id().desc()))
    };
    assert_eq!(ids(sorted().all().await.unwrap()), [6, 2, 1, 3, 5, 4]);
    let mut paged = Vec::new();
    let mut token = None;
    loop {
        let page = sorted().page(2).after(token).await.unwrap();
        paged.extend(ids(page.items));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(paged, [6, 2, 1, 3, 5, 4]);
    // The copy of a copy.
    let nested = db.find::<Product>().sort(|p| {
        (
            p.category().get(|c| c.parent().get(|c| c.slug())).asc(),
            p.id().asc(),
        )
    });
    assert_eq!(ids(nested.all().await.unwrap()), [5, 6, 1, 2, 3, 4]);
    let by_id = db
        .find::<Product>()
        .sort(|p| (p.category().get(|c| c.id()).desc(), p.id().asc()));
    assert_eq!(ids(by_id.all().await.unwrap()), [5, 3, 4, 1, 2, 6]);
    // Conditions and aggregates on the copy.
    let top = db
        .find::<Product>()
        .filter(|p| p.category().get(|c| c.rank()).gt(1));
    assert_eq!(top.count().await.unwrap(), 2);
    assert_eq!(
        db.find::<Product>()
            .max(|p| p.brand().get(|b| b.name()))
            .await
            .unwrap(),
        Some("cut".to_owned())
    );

    let error = db
        .find::<Product>()
        .sort(|p| p.brand().get(|b| b.country()).asc())
        .all()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .to_string()
            .contains("#[denormalize(from = brand.country)]"),
        "{error}"
    );
}

pub async fn copies_answer_joins(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let operations = || {
        let operations = recorder.operations().len();
        recorder.clear();
        operations
    };
    let find = || db.find::<Product>().sort(|p| p.id().asc());
    // The same result from the copies and from the targets.
    let covered = find()
        .with(|p| p.category().select::<CategoryCard>())
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 1);
    let current = find()
        .current()
        .with(|p| p.category().select::<CategoryCard>())
        .all()
        .await
        .unwrap();
    assert!(operations() > 2);
    assert_eq!(covered.len(), 6);
    for ((product, category), (other, from_target)) in covered.iter().zip(&current) {
        assert_eq!((product, category.loaded()), (other, from_target.loaded()));
        assert_eq!(category.loaded().unwrap().id, *product.category.id());
    }
    assert_eq!(covered[0].1.loaded().unwrap().rank, Some(1));

    // An optional reference, and references in an array of structs. A projection of the parent reads the copies too.
    let covered = find()
        .select::<Stock>()
        .with(|p| p.brand().select::<BrandName>())
        .with(|p| p.lines().brand().select::<BrandName>())
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 1);
    let names: Vec<_> = covered
        .iter()
        .map(|(_, brand, lines)| {
            let brand = brand
                .as_ref()
                .map(|brand| brand.loaded().unwrap().name.as_str());
            let lines = lines.loaded().map(|line| line.name.as_str());
            (brand, lines.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(names[0], (Some("acme"), vec!["acme", "bosco"]));
    assert_eq!(names[1], (None, vec![]));
    assert_eq!(names[3], (Some("cut"), vec!["acme", "cut", "cut"]));
    let (_, category) = db
        .get::<Product>(1)
        .with(|p| p.category().select::<CategoryCard>())
        .await
        .unwrap();
    assert_eq!(
        (category.loaded().unwrap().slug.as_str(), operations()),
        ("saws", 1)
    );

    // The copy of a missing field is null too, so a null copy needs the target.
    let mut slugs = Vec::new();
    for find in [find(), find().current()] {
        let found = find.with(|p| p.category().select::<ParentSlug>());
        let found = found.all().await.unwrap();
        let found = found
            .iter()
            .map(|(_, category)| category.loaded().unwrap().parent_slug.clone());
        slugs.push(found.collect::<Vec<_>>());
    }
    assert_eq!(slugs[0], slugs[1]);
    assert!(slugs[0].contains(&None), "{slugs:?}");
    operations();

    // A field without a copy, a condition, an order, a further join, and whole documents need the targets.
    find()
        .with(|p| p.brand().select::<BrandCard>())
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 2);
    find().with(|p| p.brand()).all().await.unwrap();
    assert_eq!(operations(), 2);
    find()
        .with(|p| p.brand().filter(|b| b.id().eq(1)).select::<BrandName>())
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 2);
    find()
        .with(|p| {
            p.lines()
                .brand()
                .sort(|b| b.name().asc())
                .select::<BrandName>()
        })
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 2);
    let children = Product::by(|p| p.brand());
    find()
        .with(|p| p.brand().select::<BrandName>().with_children(children))
        .all()
        .await
        .unwrap();
    assert_eq!(operations(), 3);

    // A renamed category: the copies follow, and `current` does not wait for them.
    db.update::<Category>(2)
        .set(|c| c.slug(), "handsaws")
        .await
        .unwrap();
    let current = find()
        .current()
        .with(|p| p.category().select::<CategoryCard>())
        .all()
        .await
        .unwrap();
    assert_eq!(current[0].1.loaded().unwrap().slug, "handsaws");
    db.wait_for_pending().await.unwrap();
    recorder.clear();
    let covered = find()
        .with(|p| p.category().select::<CategoryCard>())
        .all()
        .await
        .unwrap();
    assert_eq!(
        (covered[0].1.loaded().unwrap().slug.as_str(), operations()),
        ("handsaws", 1)
    );

    // A document that is older than the copy has no answer, so the join reads the targets.
    let unset = odm::backend::operation::UpdateOperation {
        collection: "products".into(),
        filter: bson::rawdoc! { "_id": 1_i64 },
        change: odm::backend::operation::DocumentChange::Operators {
            update: bson::rawdoc! { "$unset": { "brand_name": 1 } },
            array_filters: Vec::new(),
        },
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(unset).await.unwrap();
    recorder.clear();
    let joined = db
        .find::<Product>()
        .select::<Stock>()
        .with(|p| p.brand().select::<BrandName>())
        .all()
        .await
        .unwrap();
    assert_eq!((joined.len(), operations()), (6, 2));
    assert!(
        joined
            .iter()
            .all(|(_, brand)| brand.as_ref().is_none_or(|brand| brand.loaded().is_some()))
    );
}
