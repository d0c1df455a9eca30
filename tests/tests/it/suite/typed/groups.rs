//! Groups by elements of arrays and by time spans, and conditions on groups.

use odm::{ErrorKind, prelude::*};

use crate::Fixture;

/// An order with arrays of texts, of structs, and of arrays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    placed: DateTime,
    paid: Option<DateTime>,
    #[embed(max = 10)]
    tags: Vec<String>,
    #[embed(max = 10)]
    lines: Vec<Line>,
    #[embed(max = 10)]
    matrix: Vec<Vec<i64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    product: String,
    color: Option<String>,
    pieces: i32,
    #[embed(max = 10)]
    gifts: Vec<String>,
}

#[derive(Schema)]
#[schema(models(Order))]
struct Shop;
type Db = odm::Database<Shop>;

fn date(text: &str) -> DateTime {
    DateTime::parse_rfc3339_str(text).unwrap()
}

fn line(product: &str, color: Option<&str>, pieces: i32, gifts: &[&str]) -> Line {
    Line {
        product: product.into(),
        color: color.map(str::to_owned),
        pieces,
        gifts: gifts.iter().map(|gift| (*gift).to_owned()).collect(),
    }
}

async fn insert_orders(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let order = |id, shop: &str, placed, tags: &[&str], lines: Vec<Line>| Order {
        id,
        shop: shop.into(),
        placed: date(placed),
        paid: (id != 3).then(|| date(placed)),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        lines,
        matrix: vec![vec![1, 2], vec![2]],
    };
    let red = Some("red");
    let orders = [
        order(
            1,
            "east",
            "2024-03-30T22:30:00Z",
            &["new", "big"],
            vec![line("saw", red, 2, &["pen"]), line("nail", None, 10, &[])],
        ),
        order(
            2,
            "east",
            "2024-03-30T23:30:00Z",
            &["new", "new"],
            vec![line("saw", None, 1, &["pen", "mug"])],
        ),
        order(3, "west", "2024-04-07T12:00:00Z", &[], Vec::new()),
        order(
            4,
            "west",
            "2025-01-01T00:30:00Z",
            &["big"],
            vec![line("saw", red, 4, &[])],
        ),
    ];
    db.insert_many(orders).await.unwrap();
    db
}

pub async fn groups_by_elements_of_arrays(fixture: Fixture) {
    let db = insert_orders(&fixture).await;
    let orders = || db.find::<Order>();
    // Each element counts, also the equal elements of one document.
    let tags = orders().group_by(|o| o.tags().each()).select(|g| g.count());
    let tags = tags.sort(|tag, _| tag.asc()).all().await.unwrap();
    assert_eq!(tags, [("big".to_owned(), 2), ("new".to_owned(), 3)]);

    // The aggregates see fields of the document and of the element.
    let products = orders()
        .group_by(|o| o.lines().product())
        .select(|g| {
            let pieces = g.sum(|o| o.lines().pieces());
            (
                g.count(),
                pieces,
                g.max(|o| o.placed()),
                g.min(|o| o.lines().color()),
            )
        })
        .sort(|product, _| product.asc());
    let nail = (1, 10, Some(date("2024-03-30T22:30:00Z")), None);
    let saw = (
        3,
        7,
        Some(date("2025-01-01T00:30:00Z")),
        Some("red".to_owned()),
    );
    let expected = [("nail".to_owned(), nail), ("saw".to_owned(), saw)];
    assert_eq!(products.all().await.unwrap(), expected);

    // Two fields of one element, with null as a key.
    let by_color = orders()
        .group_by(|o| (o.shop(), o.lines().product(), o.lines().color()))
        .select(|g| g.sum(|o| o.lines().pieces()))
        .sort(|key, pieces| (pieces.asc(), key.asc()));
    let key = |shop: &str, product: &str, color: Option<&str>| {
        (
            shop.to_owned(),
            product.to_owned(),
            color.map(str::to_owned),
        )
    };
    let expected = [
        (key("east", "saw", None), 1),
        (key("east", "saw", Some("red")), 2),
        (key("west", "saw", Some("red")), 4),
        (key("east", "nail", None), 10),
    ];
    assert_eq!(by_color.all().await.unwrap(), expected);

    // Elements of an array inside of elements, and of arrays of arrays.
    let gifts = orders()
        .group_by(|o| o.lines().gifts().each())
        .select(|g| (g.count(), g.sum(|o| o.lines().pieces())))
        .sort(|gift, _| gift.asc());
    let expected = [("mug".to_owned(), (1, 1)), ("pen".to_owned(), (2, 3))];
    assert_eq!(gifts.all().await.unwrap(), expected);
    let numbers = orders()
        .filter(|o| o.id().eq(1))
        .group_by(|o| o.matrix().each().each())
        .select(|g| g.count())
        .sort(|number, _| number.asc());
    assert_eq!(numbers.all().await.unwrap(), [(1, 1), (2, 2)]);
}

pub async fn aggregates_over_other_elements_are_rejected(fixture: Fixture) {
    let db = insert_orders(&fixture).await;
    let orders = || db.find::<Order>();
    let errors = [
        (
            "lines.pieces",
            orders()
                .group_by(|o| o.shop())
                .select(|g| g.sum(|o| o.lines().pieces()))
                .all()
                .await,
        ),
        (
            "lines.pieces",
            orders()
                .group_by(|o| o.tags().each())
                .select(|g| g.sum(|o| o.lines().pieces()))
                .all()
                .await,
        ),
    ];
    for (path, result) in errors {
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Invalid, Some(path)),
            "{error}"
        );
    }
    let nested = orders().group_by(|o| o.lines().product());
    let nested = nested.select(|g| g.max(|o| o.lines().gifts().each()));
    assert_eq!(nested.all().await.unwrap_err().kind(), ErrorKind::Invalid);
    // The elements of an array of arrays are unwound twice: once is not enough.
    let outer = orders().group_by(|o| o.lines().product());
    assert!(
        outer
            .select(|g| g.sum(|o| o.matrix().each().each()))
            .all()
            .await
            .is_err()
    );
    let inner = orders().group_by(|o| o.matrix().each().each());
    assert!(
        inner
            .select(|g| g.sum(|o| o.matrix().each().each()))
            .all()
            .await
            .is_ok()
    );
}

pub async fn groups_by_time_spans(fixture: Fixture) {
    let db = insert_orders(&fixture).await;
    let orders = || db.find::<Order>();
    let days = orders()
        .group_by(|o| o.placed().by_day("UTC"))
        .select(|g| g.count());
    let expected = [
        (date("2024-03-30T00:00:00Z"), 2),
        (date("2024-04-07T00:00:00Z"), 1),
        (date("2025-01-01T00:00:00Z"), 1),
    ];
    assert_eq!(days.sort(|day, _| day.asc()).all().await.unwrap(), expected);

    // In Berlin, 23:30 in UTC is the next day. The offset changes on 31 March.
    let days = orders()
        .group_by(|o| o.placed().by_day("Europe/Berlin"))
        .select(|g| g.count());
    let expected = [
        (date("2024-03-29T23:00:00Z"), 1),
        (date("2024-03-30T23:00:00Z"), 1),
        (date("2024-04-06T22:00:00Z"), 1),
        (date("2024-12-31T23:00:00Z"), 1),
    ];
    assert_eq!(days.sort(|day, _| day.asc()).all().await.unwrap(), expected);

    let starts = [
        (
            orders().group_by(|o| o.placed().by_hour("UTC")),
            "2024-03-30T22:00:00Z",
            4,
        ),
        (
            orders().group_by(|o| o.placed().by_week("UTC")),
            "2024-03-25T00:00:00Z",
            3,
        ),
        (
            orders().group_by(|o| o.placed().by_month("UTC")),
            "2024-03-01T00:00:00Z",
            3,
        ),
        (
            orders().group_by(|o| o.placed().by_quarter("UTC")),
            "2024-01-01T00:00:00Z",
            3,
        ),
        (
            orders().group_by(|o| o.placed().by_year("+01:00")),
            "2023-12-31T23:00:00Z",
            2,
        ),
    ];
    for (spans, first, count) in starts {
        let spans = spans.select(|g| g.count()).sort(|start, _| start.asc());
        let spans = spans.all().await.unwrap();
        assert_eq!((spans[0].0, spans.len()), (date(first), count));
    }

    // Null is a group of its own, beside another key.
    let paid = orders()
        .filter(|o| o.shop().eq("west"))
        .group_by(|o| (o.shop(), o.paid().by_year("UTC")))
        .select(|g| g.count())
        .sort(|key, _| key.asc());
    let expected = [
        (("west".to_owned(), None), 1),
        (("west".to_owned(), Some(date("2025-01-01T00:00:00Z"))), 1),
    ];
    assert_eq!(paid.all().await.unwrap(), expected);

    let unknown = orders()
        .group_by(|o| o.placed().by_day("Mars/Olympus"))
        .select(|g| g.count());
    assert!(unknown.all().await.is_err());
}

/// A product with the number of lines, the sum and the average of the pieces, and the last color.
type ProductGroup = (String, (u64, i64, Option<f64>, Option<String>));

pub async fn groups_meet_conditions(fixture: Fixture) {
    let db = insert_orders(&fixture).await;
    let products = || {
        let groups = db.find::<Order>().group_by(|o| o.lines().product());
        let groups = groups.select(|g| {
            let pieces = g.sum(|o| o.lines().pieces());
            (
                g.count(),
                pieces,
                g.avg(|o| o.lines().pieces()),
                g.max(|o| o.lines().color()),
            )
        });
        groups.sort(|product, _| product.asc())
    };
    let names = async |groups: Vec<ProductGroup>| -> Vec<String> {
        groups.into_iter().map(|(product, _)| product).collect()
    };
    let all = products().all().await.unwrap();
    assert_eq!(names(all).await, ["nail", "saw"]);
    let kept = products()
        .having(|(count, ..)| count.gt(1_u64))
        .all()
        .await
        .unwrap();
    assert_eq!(names(kept).await, ["saw"]);
    let kept = products()
        .having(|(_, pieces, ..)| pieces.gte(10))
        .all()
        .await
        .unwrap();
    assert_eq!(names(kept).await, ["nail"]);
    let kept = products()
        .having(|(_, _, average, _)| average.lt(3.0))
        .all()
        .await
        .unwrap();
    assert_eq!(names(kept).await, ["saw"]);
    let kept = products()
        .having(|(.., color)| color.eq("red"))
        .all()
        .await
        .unwrap();
    assert_eq!(names(kept).await, ["saw"]);
    let both = products()
        .having(|(count, ..)| count.lte(3_u64))
        .having(|(_, pieces, ..)| pieces.eq(10) | pieces.eq(11))
        .limit(5);
    assert_eq!(names(both.all().await.unwrap()).await, ["nail"]);
}
